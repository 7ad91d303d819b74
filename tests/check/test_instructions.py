"""Inline PTX that opening a gate brings in, judged by ptxas."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.check.conftest import Ask

from ungate.check import check
from ungate.host import assembler
from ungate.host.packages import below
from ungate.model import ArchSet, Chain, Finding, Form, Gate, Hop, Target
from ungate.scan import scan

GATED = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200\n"
ALLOCATE = '  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(a), "r"(n));\n'
WAIT = '  asm volatile("griddepcontrol.wait;");\n'
NONSENSE = '  asm volatile("frobnicate.b32 %0;" : "=r"(a));\n'
KERNEL = "__global__ void k(uint32_t a, int n) {\n" + GATED + ALLOCATE + "#else\n  slow(a);\n#endif\n}\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.toolkit
@pytest.mark.parametrize(
    ("source", "opened"),
    [
        (KERNEL, 0),  # the gate stays closed
        (KERNEL.replace(ALLOCATE, WAIT), 1),  # the target has it
        (KERNEL.replace(ALLOCATE, NONSENSE), 1),  # nobody has it: it was not understood
        (KERNEL.replace(ALLOCATE, "  // " + ALLOCATE), 1),
        (KERNEL.replace(GATED, GATED.replace(" && __CUDA_ARCH__ < 1200", "")), 1),  # open before: nothing is new
    ],
    ids=["closed", "supported", "not understood", "a comment", "open before"],
)
def test_nothing(ask: Ask, source: str, opened: int) -> None:
    assert ask("instructions", source, opened=opened) == ()


@pytest.mark.toolkit
def test_an_instruction_that_the_target_lacks(ask: Ask) -> None:
    (finding,) = ask("instructions", KERNEL, opened=1)
    assert finding.severity == "danger"
    assert finding.what.startswith("k would not assemble for sm_120, and does for sm_100a: ")
    assert "Instruction 'tcgen05.alloc' not supported on .target 'sm_120'" in finding.what
    assert finding.line == 3 and finding.evidence.startswith("ptxas: line 3: ")


@pytest.mark.toolkit
def test_a_helper_matters_only_where_it_is_called(ask: Ask) -> None:
    (finding,) = ask("instructions", KERNEL.replace("__global__", "__device__"), opened=1)
    assert finding.severity == "warning" and finding.confidence == "medium"


@pytest.mark.toolkit
def test_an_older_target(ask: Ask) -> None:
    source = KERNEL.replace(ALLOCATE, WAIT).replace(">= 1000", ">= 900")
    (finding,) = ask("instructions", source, target=89, opened=1)
    assert "requires .target sm_90 or higher" in finding.what


@pytest.mark.toolkit
def test_an_instruction_of_the_suffixed_target(ask: Ask) -> None:
    scaled = (
        '  asm volatile("mma.sync.aligned.kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col"\n'
        '    ".f32.e2m1.e2m1.f32.ue8m0"\n'
        '    "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%11,%12,%13},{%14},{%15,%16},{%17},{%18,%19};"\n'
        '    : "=f"(d0),"=f"(d1),"=f"(d2),"=f"(d3)\n'
        '    : "r"(a0),"r"(a1),"r"(a2),"r"(a3),"r"(b0),"r"(b1),"f"(c0),"f"(c1),"f"(c2),"f"(c3),\n'
        '      "r"(s), "h"(z), "h"(z), "r"(t), "h"(z), "h"(z));\n'
    )
    source = "__global__ void k() {\n#if __CUDA_ARCH__ == 1210\n" + scaled + "#endif\n}\n"
    (finding,) = ask("instructions", source, opened=1)
    assert finding.severity == "note" and finding.advice.startswith("Compile for sm_120a")


def _built(folder: Path, opened: bool) -> tuple[Finding, ...]:
    """A module whose build is gated by a list, with a kernel in a file that has no gate of its own."""
    root = folder / "kernels"
    root.mkdir()
    (root / "jit.py").write_text("x = 1\n")
    (root / "k.cu").write_text("__global__ void k(uint32_t a, int n) {\n" + ALLOCATE + "}\n")
    gate = Gate(
        "g", "p", "d", "1", "kernels/jit.py", 1, 1, "python-version-list", "[10]", ArchSet.of({100}), form=Form.INT_LIST
    )
    hops = (Hop("jit-module", "kernels/jit.py", 1, "gen", True, (gate,)), Hop("kernel", "kernels/k.cu", 1, "k", True))
    chain = Chain("f", Target(120, "a"), hops)
    found = check(chain, Target(120, "a"), below(root), opened=frozenset({"g"} if opened else ()))
    return tuple(finding for finding in found if finding.rule == "instructions")


@pytest.mark.toolkit
def test_opening_the_build_brings_in_the_whole_module(tmp_path: Path) -> None:
    (finding,) = _built(tmp_path, opened=True)
    assert finding.file == "kernels/k.cu" and "tcgen05.alloc" in finding.what


@pytest.mark.toolkit
def test_a_build_that_stays_closed_brings_in_nothing(tmp_path: Path) -> None:
    assert _built(tmp_path, opened=False) == ()


def test_without_a_toolkit_it_says_so(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler, "available", lambda: False)
    (finding,) = ask("instructions", KERNEL, opened=1)
    assert finding.severity == "note" and "1 pieces of inline PTX" in finding.what
    assert "pip install 'ungate[toolchain]'" in finding.advice
    assert ask("instructions", KERNEL) == ()


def test_a_target_that_this_ptxas_does_not_know(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler, "available", lambda: True)
    monkeypatch.setattr(assembler, "refusals", lambda pieces, target: None)
    (finding,) = ask("instructions", KERNEL, opened=1)
    assert finding.severity == "note" and "does not know" in finding.what


def test_the_test_helpers_agree_with_the_scanner(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "k.cuh").write_text(KERNEL)
    (gate,) = scan(below(folder), jobs=1, use_cache=False).gates
    assert dataclasses.replace(gate).passes.yes == {100, 103, 107, 110}


@pytest.mark.toolkit
def test_a_descriptor_that_is_replaced(ask: Ask) -> None:
    replace = (
        '  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "l"(m), "l"(a));\n'
    )
    source = KERNEL.replace(ALLOCATE, replace).replace(">= 1000", ">= 900")
    (finding,) = ask("instructions", source, opened=1)
    assert "tensormap" in finding.what
