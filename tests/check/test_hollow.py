"""Which kernels are hollow, on small headers that are really scanned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.check import check
from ungate.host.packages import below
from ungate.model import Chain, Finding, Hop, Reached, Status, Target
from ungate.scan import scan

SM120 = Target(120)
Find = Callable[..., tuple[Finding, ...]]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """Findings for one header as the only hop; ``opened`` counts the closed gates, in order, that are opened."""

    def ask(source: str, opened: int = 0) -> tuple[Finding, ...]:
        folder = tmp_path / "kernels"
        folder.mkdir(exist_ok=True)
        (folder / "k.cuh").write_text(source)
        packages = below(folder)
        gates = scan(packages, jobs=1, use_cache=False).gates
        closed = [gate.id for gate in gates if gate.status(SM120) is Status.CLOSED]
        chain = Chain("f", SM120, (Hop("kernel", "kernels/k.cuh", 1, "k", True, gates),))
        found = check(chain, SM120, packages, opened=frozenset(closed[:opened]))
        return tuple(finding for finding in found if finding.rule == "hollow")

    return ask


GATED = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200\n"

NOT_HOLLOW = {
    "no condition": "__global__ void k(int* p) { *p = 1; }\n",
    "an else with a body": "__global__ void k(int* p) {\n" + GATED + "  *p = 1;\n#else\n  *p = 2;\n#endif\n}\n",
    "an else that traps": "__global__ void k(int* p) {\n" + GATED + '  *p = 1;\n#else\n  asm("trap;");\n#endif\n}\n',
    "only a part is conditional": "__global__ void k(int* p) {\n  *p = 1;\n" + GATED + "  __syncwarp();\n#endif\n}\n",
    "a device helper is no kernel": "__device__ void h(int* p) {\n" + GATED + "  *p = 1;\n#endif\n}\n",
    "open for the target": "__global__ void k(int* p) {\n#if __CUDA_ARCH__ >= 900\n  *p = 1;\n#endif\n}\n",
    "a fallback for older ones": (
        "__global__ void k(int* p) {\n#if __CUDA_ARCH__ < 800\n  *p = 1;\n#else\n  *p = 2;\n#endif\n}\n"
    ),
}


@pytest.mark.parametrize("source", NOT_HOLLOW.values(), ids=NOT_HOLLOW.keys())
def test_not_hollow(find: Find, source: str) -> None:
    assert find(source) == ()


def test_a_body_that_is_wholly_conditional(find: Find) -> None:
    (finding,) = find("template <typename T>\n__global__ void k(T* p) {\n" + GATED + "  *p = 1;\n#endif\n}\n")
    assert finding.what == "k would have no body on sm_120"
    assert (finding.line, finding.end_line) == (1, 6)
    assert finding.severity == "danger" and finding.reached is Reached.UNKNOWN


def test_declarations_do_not_make_a_body(find: Find) -> None:
    source = "__global__ void k(int* p) {\n  namespace cg = cooperative_groups;\n  using T = int;  // a type\n"
    (finding,) = find(source + GATED + "  *p = 1;\n#endif\n  /* nothing */ ;\n}\n")
    assert finding.what.startswith("k would")


def test_two_regions_that_hold_everything(find: Find) -> None:
    source = "__global__ void k(int* p) {\n" + GATED + "  *p = 1;\n#endif\n" + GATED + "  *p = 2;\n#endif\n}\n"
    assert len(find(source)) == 1
    assert find(source, opened=1) == ()


def test_opening_the_gate_gives_the_body_back(find: Find) -> None:
    source = "__global__ void k(int* p) {\n" + GATED + "  *p = 1;\n#endif\n}\n"
    assert find(source, opened=1) == ()


def test_each_kernel_is_named(find: Find) -> None:
    one = "__global__ void {}(int* p) {{\n" + GATED.replace("{", "{{") + "  *p = 1;\n#endif\n}}\n"
    assert [finding.what.split()[0] for finding in find(one.format("a") + one.format("b"))] == ["a", "b"]


def test_a_body_that_hangs_on_a_feature_macro(find: Find) -> None:
    source = "__global__ void k(int* p) {\n#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n  *p = 1;\n#endif\n}\n"
    (finding,) = find(source)
    assert finding.what == "k would have no body on sm_120"
