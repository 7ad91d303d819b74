"""Launches that stand under a condition on NVLink."""

from __future__ import annotations

from pathlib import Path

import pytest

from ungate.check import check
from ungate.host.facts import HostFacts
from ungate.host.gpus import Link
from ungate.host.index import fetch
from ungate.host.packages import below
from ungate.model import Chain, Finding, Hop, Target

PLAIN = "void reduce(int n) {\n  if (full_nvlink_) {\n    k<<<n, 32>>>(p);\n  }\n}\n"
MACROS = """
void allreduce(int bytes) {
#define KL(ngpus, name) \\
  name<T, ngpus><<<blocks, threads, 0, stream>>>(ptrs, rank_);
#define CASE(ngpus)                    \\
  case ngpus: {                        \\
    if (world_size_ == 2) {            \\
      KL(ngpus, one);                  \\
    } else if (full_nvlink_) {         \\
      if (bytes < 512) { KL(ngpus, one); } else { KL(ngpus, two); } \\
    }                                  \\
    break;                             \\
  }
  switch (world_size_) { CASE(2) CASE(4) }
}
"""
NO_LINK = Link(0, 1, read=True, write=True, nvlink=False)


def _ask(folder: Path, source: str, link: Link | None = NO_LINK) -> tuple[Finding, ...]:
    (folder / "kernels").mkdir(exist_ok=True)
    (folder / "kernels/k.cuh").write_text(source)
    chain = Chain("f", Target(120), (Hop("kernel", "kernels/k.cuh", 1, "k", True),))
    facts = HostFacts(links=(link,)) if link else None
    found = check(chain, Target(120), below(folder / "kernels"), facts=facts)
    return tuple(finding for finding in found if finding.rule == "linked")


@pytest.mark.parametrize(
    "source",
    [
        PLAIN.replace("  }\n}", "  } else {\n    slow<<<n, 32>>>(p);\n  }\n}"),
        PLAIN.replace("full_nvlink_", "!full_nvlink_"),
        PLAIN.replace("full_nvlink_", "ready"),
        PLAIN.replace("  if", "  // nvlink\n  if").replace("full_nvlink_", "ready"),
        MACROS.replace("if (world_size_ == 2)", "if (world_size_ <= 8)"),
        "void set(bool full_nvlink) { if (full_nvlink) { one(); } }\n",
    ],
    ids=["an else that launches", "negated", "another condition", "a comment", "most sizes", "no launch"],
)
def test_nothing(tmp_path: Path, source: str) -> None:
    assert _ask(tmp_path, source) == ()


def test_all_launches_need_nvlink(tmp_path: Path) -> None:
    (finding,) = _ask(tmp_path, PLAIN)
    assert finding.what == "reduce launches no kernel without NVLink, and GPUs 0 and 1 have none"
    assert finding.severity == "danger" and (finding.line, finding.end_line) == (1, 5)


def test_through_macros_and_but_for_two_ranks(tmp_path: Path) -> None:
    (finding,) = _ask(tmp_path, MACROS)
    assert finding.what.startswith("allreduce launches no kernel without NVLink, but for world_size_ == 2, and")


def test_a_host_with_nvlink_and_one_that_is_not_known(tmp_path: Path) -> None:
    assert _ask(tmp_path, PLAIN, Link(0, 1, read=True, write=True, nvlink=True)) == ()
    (finding,) = _ask(tmp_path, PLAIN, None)
    assert finding.severity == "warning" and finding.what == "reduce launches no kernel without NVLink"


@pytest.mark.wheels
def test_the_copied_allreduce_of_flashinfer() -> None:
    root = fetch("flashinfer-python==0.6.3")
    file = "flashinfer/data/include/flashinfer/comm/vllm_custom_all_reduce.cuh"
    chain = Chain("f", Target(120), (Hop("kernel", file, 1, "k", True),))
    found = check(chain, Target(120), below(root), facts=HostFacts(links=(NO_LINK,)))
    (finding,) = [each for each in found if each.rule == "linked"]
    assert finding.what.startswith("allreduce launches no kernel without NVLink, but for world_size_ == 2")
