"""``ungate lint`` on the real wheels: FlashInfer 0.6.3 and SGLang 0.5.9. Each finding was compared with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from ungate.host.packages import below
from ungate.model import Finding, Target
from ungate.scan import scan
from ungate.trace import Trace
from ungate.trace.lint import lint

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(900)]

COMM = "flashinfer/data/include/flashinfer/comm/"


@pytest.fixture(scope="module")
def found(story_site: Path) -> dict[int, tuple[Finding, ...]]:
    packages = tuple(package for package in below(story_site) if package.name in ("flashinfer-python", "sglang"))
    result = scan(packages)
    return {arch: lint(Trace(packages, result, Target(arch)), (arch,))[0] for arch in (90, 120)}


def test_what_starts_on_no_sm_120(found: dict[int, tuple[Finding, ...]]) -> None:
    refused = {(each.rule, each.file, each.line) for each in found[120] if each.severity == "danger"}
    assert refused == {
        ("value-leads-to-refusal", "flashinfer/data/include/flashinfer/trtllm/fmha/fmhaRunner.cuh", 30),  # sglang#24633
        ("value-leads-to-refusal", "sglang/srt/layers/attention/attention_registry.py", 131),
        ("value-leads-to-no-build", "flashinfer/jit/fused_moe.py", 238),
    }


def test_two_headers_disagree_about_the_launch(found: dict[int, tuple[Finding, ...]]) -> None:
    differ = {(each.rule, each.file, each.line) for each in found[120] if each.severity != "danger"}
    assert differ == {
        ("launch-attribute-differs", COMM + "trtllm_allreduce.cuh", 417),
        ("launch-attribute-differs", COMM + "trtllm_allreduce.cuh", 711),
    }


def test_hopper_is_let_in_nowhere_in_vain(found: dict[int, tuple[Finding, ...]]) -> None:
    assert found[90] == ()
