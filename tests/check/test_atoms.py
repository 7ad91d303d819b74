"""CuTe's atoms, judged by the PTX in CUTLASS's headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from ungate.check import check
from ungate.host.packages import below
from ungate.model import Chain, Finding, Hop, Status, Target
from ungate.scan import scan

pytestmark = pytest.mark.toolkit

GATED = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200\n"
HEADER = """
struct SM100_ALLOCATE
{
  CUTE_HOST_DEVICE static void go(uint32_t a, int n)
  {
#if defined(CUTE_ARCH_TCGEN05_TMEM_ENABLED)
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(a), "r"(n));
#endif
  }
};
struct SM90_WAIT : Base {
  static void go() { asm volatile("griddepcontrol.wait;"); }
};
struct SM100_NOTHING {
  static void go() { CUTE_INVALID_CONTROL_PATH("none"); }
};
"""


def _ask(root: Path, atom: str, *, opened: bool = True) -> tuple[Finding, ...]:
    target = Target(120, "a")
    folder = root / "kernels"
    headers = folder / "data/cutlass/include/cute/arch"
    headers.mkdir(parents=True)
    (headers / "atoms.hpp").write_text(HEADER)
    (folder / "k.cuh").write_text("__global__ void k() {\n" + GATED + f"  using A = {atom};\n#endif\n}}\n")
    packages = below(folder)
    gates = tuple(gate for gate in scan(packages, jobs=1, use_cache=False).gates if gate.file == "kernels/k.cuh")
    closed = frozenset(gate.id for gate in gates if gate.status(target) is Status.CLOSED) if opened else frozenset()
    chain = Chain("f", target, (Hop("kernel", "kernels/k.cuh", 1, "k", True, gates),))
    return tuple(found for found in check(chain, target, packages, opened=closed) if found.rule == "atoms")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("atom", ["SM90_WAIT", "SM100_NOTHING", "SM100_UNKNOWN", "Copy_Atom /* SM100_ALLOCATE */"])
def test_nothing(tmp_path: Path, atom: str) -> None:
    assert _ask(tmp_path, atom) == ()


def test_an_atom_whose_instruction_the_target_lacks(tmp_path: Path) -> None:
    (finding,) = _ask(tmp_path, "cute::SM100_ALLOCATE")
    assert finding.severity == "danger" and finding.line == 3
    assert "k.cuh uses SM100_ALLOCATE" in finding.what and "'tcgen05.alloc' not supported" in finding.what


def test_what_stays_closed_uses_nothing(tmp_path: Path) -> None:
    assert _ask(tmp_path, "cute::SM100_ALLOCATE", opened=False) == ()
