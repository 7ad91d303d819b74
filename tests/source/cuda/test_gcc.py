"""Our evaluation against a real preprocessor: the archs let through are those for which gcc -E keeps the lines."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ungate.model import KNOWN_ARCHS
from ungate.source.condition import passing
from ungate.source.cuda.conditions import Conditions
from ungate.source.cuda.directives import read
from ungate.source.cuda.macros import TOOLKIT, clauses, condition_text
from ungate.source.cuda.targets import macros, most_specific

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to compare with")

_NAMES = ("__CUDA_ARCH__", "__CUDA_ARCH_SPECIFIC__", "__CUDA_ARCH_FAMILY_SPECIFIC__", "__CUDA_ARCH_FEAT_SM90_ALL")
_MORE = (
    "__CUDA_ARCH_FEAT_SM100_ALL",
    "__CUDA_ARCH_FEAT_SM120_ALL",
    "__CUDA_ARCH_FEAT_SM101_ALL",
    "__CUDACC_VER_MAJOR__",
)
_NUMBERS = (*(arch * 10 for arch in KNOWN_ARCHS), 530, 700, 1199, 12, 13, 0, 1)


def kept(source: str, defines: Mapping[str, int], folder: Path) -> frozenset[int]:
    """The numbers of the ``keep N`` lines that gcc -E leaves."""
    file = folder / "conditions.cc"
    file.write_bytes(source.encode("latin-1"))
    command = [
        "gcc",
        "-E",
        "-P",
        "-w",
        "-x",
        "c++",
        *(f"-D{name}={value}" for name, value in defines.items()),
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return frozenset(int(number) for number in re.findall(r"keep (\d+)", done.stdout))


def passes_of(source: str, folder: Path) -> tuple[dict[int, frozenset[int]], frozenset[int]]:
    """For each kept number the archs, and what the host pass keeps."""
    found: dict[int, set[int]] = {}
    for arch in KNOWN_ARCHS:
        for number in kept(source, {**TOOLKIT, **macros(most_specific(arch))}, folder):
            found.setdefault(number, set()).add(arch)
    host = kept(source, dict(TOOLKIT), folder)
    return {number: frozenset(archs) for number, archs in found.items()}, host


class Writer:
    """Writes conditions of every shape that real headers have."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self) -> str:
        value = self.random.choice(_NUMBERS)
        return self.random.choice((str(value), f"{value}", hex(value), f"{value}U", f"({value})", f"{value}L"))

    def name(self) -> str:
        return self.random.choice((*_NAMES, "__CUDA_ARCH__", "__CUDA_ARCH__", *_MORE))

    def leaf(self) -> str:
        kind = self.random.randrange(10)
        name = self.name()
        if kind < 2:
            return self.random.choice(
                (f"defined({name})", f"defined {name}", f"(defined({name}))", f"defined( {name} )")
            )
        if kind == 2:
            return f"({self.number()} {self.operator()} {name})"
        if kind == 3:
            return f"({name} / 10 {self.operator()} {self.random.choice(KNOWN_ARCHS)})"
        if kind == 4:
            return f"({name} - {self.number()} {self.operator()} {self.number()})"
        if kind == 5:
            return self.random.choice(("0", "1", "true", "false", name, f"-{name}", f"~{name}"))
        if kind == 6:
            return f"({name} & 1) == 0"
        return f"{name} {self.operator()} {self.number()}"

    def operator(self) -> str:
        return self.random.choice((">=", ">=", "<", "==", "!=", ">", "<="))

    def condition(self, depth: int = 0) -> str:
        kind = self.random.randrange(8)
        if depth > 3 or kind < 3:
            return self.leaf()
        if kind == 3:
            return self.random.choice(("!({})", "! ({})", "not ({})")).format(self.condition(depth + 1))
        join = self.random.choice((" && ", " || ", "&&", "||", " and ", " or ", " && /* why */ ", " || \\\n    "))
        left, right = self.condition(depth + 1), self.condition(depth + 1)
        return self.random.choice(("{}{}{}", "({}){}({})", "({}{}{})")).format(left, join, right)


def test_generated_conditions(tmp_path: Path) -> None:
    writer = Writer(20261129)
    texts = [writer.condition() for _ in range(2500)]
    assert len(set(texts)) > 2000
    source = "".join(f"#if {text}\nkeep {index}\n#endif\n" for index, text in enumerate(texts))
    expected, host = passes_of(source, tmp_path)
    conditions = Conditions()
    reading = read(source)
    assert len(reading.branches) == len(texts)
    for index, branch in enumerate(reading.branches):
        judged = conditions.judge(branch.directive.text)
        passes = passing(judged.tree)
        assert passes.decided, texts[index]
        assert passes.yes == expected.get(index, frozenset()), texts[index]
        assert judged.host is (index in host), texts[index]


def _tree(writer: Writer, lines: list[str], depth: int) -> None:
    for _ in range(writer.random.randrange(1, 3)):
        hash_sign = writer.random.choice(("#", "# ", "  #", "#  "))
        word = writer.random.choice(("if", "if", "if", "ifdef", "ifndef"))
        lines.append(f"{hash_sign}{word} {writer.condition(2) if word == 'if' else writer.name()}")
        lines.append(f"keep {len(lines)}")
        if depth < 3 and writer.random.random() < 0.6:
            _tree(writer, lines, depth + 1)
        for _ in range(writer.random.randrange(3)):
            lines.append(f"#elif {writer.condition(2)} // next")
            lines.append(f"keep {len(lines)}")
        if writer.random.random() < 0.5:
            lines.append("#else /* otherwise */")
            lines.append(f"keep {len(lines)}")
            if depth < 3 and writer.random.random() < 0.4:
                _tree(writer, lines, depth + 1)
        lines.append("#endif  // __CUDA_ARCH__ >= 900")


def test_ifdef_and_ifndef() -> None:
    reading = read("#ifndef A\n#ifdef B\n#else\n#endif\n#elif 1\n#elifndef C\n#endif\n")
    assert not reading.problems
    texts = [condition_text(branch) for branch in reading.branches if branch.directive.keyword != "else"]
    assert texts == ["!defined(A)", "defined(B)", "1", "!defined(C)"]


def test_nested_groups(tmp_path: Path) -> None:
    writer = Writer(7)
    lines: list[str] = []
    while len(lines) < 3000:
        _tree(writer, lines, 0)
    source = "\n".join(lines) + "\n"
    expected, host = passes_of(source, tmp_path)
    reading, conditions = read(source), Conditions()
    assert not reading.problems
    checked = 0
    for match in re.finditer(r"keep (\d+)", source):
        branch = next(reading.around(match.start()))
        needed = clauses(reading, branch)
        judged = [(conditions.judge(clause.text), clause.wanted) for clause in needed]
        for arch in KNOWN_ARCHS:
            ours = all((arch in passing(each.tree).yes) is wanted for each, wanted in judged)
            assert ours == (arch in expected.get(int(match.group(1)), frozenset())), (match.group(), arch)
        assert all(each.host is wanted for each, wanted in judged) == (int(match.group(1)) in host)
        checked += 1
    assert checked > 1000
