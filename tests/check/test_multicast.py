"""Kernels that write through NVLink multicast."""

from __future__ import annotations

from pathlib import Path

import pytest

from ungate.check import check
from ungate.host.facts import HostFacts
from ungate.host.gpus import Gpu, Link
from ungate.host.packages import below
from ungate.model import Chain, Finding, Hop, Target

KERNEL = "struct P { void* multicastPtr; };\n"


def _ask(root: Path, source: str = KERNEL, link: Link | None = None) -> tuple[Finding, ...]:
    (root / "kernels").mkdir(exist_ok=True)
    (root / "kernels/k.cuh").write_text(source)
    chain = Chain("f", Target(120), (Hop("kernel", "kernels/k.cuh", 1, "k", True),))
    facts = HostFacts(gpus=(Gpu(0), Gpu(1)), links=(link,)) if link else None
    found = check(chain, Target(120), below(root / "kernels"), facts=facts, instead="another one")
    return tuple(finding for finding in found if finding.rule == "multicast")


@pytest.mark.parametrize("source", ["void* peerPtr;\n", "// multicastPtr\n", "/* multimem_of_it */ int cast_ptr;\n"])
def test_nothing(tmp_path: Path, source: str) -> None:
    assert _ask(tmp_path, source) == ()


@pytest.mark.parametrize(
    "source",
    [
        KERNEL,
        'asm volatile("multimem.st.v4.f32 [%0], {%1};" :: "l"(p), "r"(x));\n',
        "T* mcast_ptr;\n",
        "cuMulticastCreate(&h, &p);\n",
    ],
)
def test_gpus_without_nvlink(tmp_path: Path, source: str) -> None:
    (finding,) = _ask(tmp_path, source, Link(0, 1, read=True, write=True, nvlink=False))
    assert finding.severity == "terminal" and finding.what.startswith("GPUs 0 and 1 have no NVLink; k.cuh")
    assert finding.advice == "Use instead: another one." and finding.line == 1


def test_nvlink_is_not_multicast(tmp_path: Path) -> None:
    (finding,) = _ask(tmp_path, link=Link(0, 1, read=True, write=True, nvlink=True))
    assert finding.severity == "note"


def test_an_unknown_host(tmp_path: Path) -> None:
    (finding,) = _ask(tmp_path)
    assert finding.severity == "warning" and "doctor" in finding.advice
    (finding,) = _ask(tmp_path, link=Link(0, 1, read=True, write=True))
    assert finding.severity == "warning"
