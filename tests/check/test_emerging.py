"""What is newly compiled in a chain that leads through two modules, one of which is built for the target today."""

from __future__ import annotations

from pathlib import Path

from ungate.check.emerging import emerging_files
from ungate.check.question import Question
from ungate.host.packages import below
from ungate.model import Chain, Gate, Hop, Status, Target
from ungate.scan import scan

FILES = {
    "jit_new.py": "def gen_new():\n    return flags(supported_major_versions=[10])\n",
    "jit_old.py": "def gen_old():\n    return flags()\n",
    "old.cu": '#include "kit/topk.cuh"\n#include "kit/shared.cuh"\n',
    "new.cu": "#include <kit/mid.cuh>\n",
    "topk.cuh": "void topk();\n",
    "shared.cuh": "void shared();\n",
    "mid.cuh": '#include "shared.cuh"\n',
    "beside.cu": "void beside();\n",
}


def question(folder: Path, hops: tuple[tuple[str, str], ...], apart: tuple[str, ...] = ()) -> Question:
    kit = folder / "kit"
    kit.mkdir()
    for name, text in FILES.items():
        (kit / name).write_text(text)
    packages = below(kit)
    gates = scan(packages, jobs=1, use_cache=False).gates

    def hop(kind: str, name: str) -> Hop:
        own = tuple(gate for gate in gates if gate.file == f"kit/{name}")
        return Hop(kind, f"kit/{name}", 1, name.partition(".")[0], True, own)

    chain = Chain("f", Target(120), tuple(hop(*each) for each in hops), tuple(hop("source", name) for name in apart))
    closed: list[Gate] = [gate for gate in chain.gates if gate.status(Target(120)) is Status.CLOSED]
    assert {gate.file for gate in closed} == {"kit/jit_new.py"}
    return Question(chain, Target(120), packages, frozenset(gate.id for gate in closed), None, False, "")


def new(asked: Question) -> list[str]:
    return sorted(each.code.file.removeprefix("kit/") for each in emerging_files(asked))


OLD = (("jit-module", "jit_old.py"), ("source", "old.cu"), ("include", "topk.cuh"), ("include", "shared.cuh"))
NEW = (("jit-module", "jit_new.py"), ("source", "new.cu"), ("include", "mid.cuh"))


def test_only_the_module_behind_the_gate_and_the_headers_that_it_includes(tmp_path: Path) -> None:
    """shared.cuh comes into both, and is compiled for the target today."""
    between = (("call", "jit_old.py"),)
    assert new(question(tmp_path, (*OLD, *between, *NEW), ("beside.cu",))) == ["mid.cuh", "new.cu"]


def test_a_header_that_is_listed_under_another_closed_module(tmp_path: Path) -> None:
    """Each header is a step of the chain once: here shared.cuh stands behind one that no file of its own includes."""
    first = (("jit-module", "jit_new.py"), ("include", "shared.cuh"))
    second = (("jit-module", "jit_new.py"), ("source", "new.cu"), ("include", "mid.cuh"))
    assert new(question(tmp_path, (*first, *second))) == ["mid.cuh", "new.cu", "shared.cuh"]


def test_the_order_of_the_modules_does_not_matter(tmp_path: Path) -> None:
    assert new(question(tmp_path, (*NEW, *OLD))) == ["mid.cuh", "new.cu"]


def test_what_is_built_beside_the_only_module_is_new_with_it(tmp_path: Path) -> None:
    assert new(question(tmp_path, NEW, ("beside.cu",))) == ["beside.cu", "mid.cuh", "new.cu"]
