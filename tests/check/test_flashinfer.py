"""FlashInfer 0.6.3 with only its JIT gate opened, as SGLang 0.5.9 uses it."""

from __future__ import annotations

import time

import pytest

from ungate import recipes
from ungate.check import check
from ungate.host.index import fetch
from ungate.host.packages import below
from ungate.model import Chain, Finding, Reached, Target
from ungate.scan import scan
from ungate.trace import chain

pytestmark = pytest.mark.wheels

SM120 = Target(120, "a")
HEADER = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"


@pytest.fixture(scope="module")
def traced() -> Chain:
    packages = tuple(
        package
        for requirement in ("flashinfer-python==0.6.3", "sglang==0.5.9")
        for package in below(fetch(requirement))
        if package.name in {"flashinfer-python", "sglang"}
    )
    return chain(recipes.load("flashinfer-allreduce-fusion"), packages, scan(packages), SM120)


@pytest.fixture(scope="module")
def findings(traced: Chain) -> tuple[Finding, ...]:
    jit = frozenset(gate.id for hop in traced.hops if hop.kind == "jit-module" for gate in hop.gates)
    assert len(jit) == 1
    packages = below(fetch("flashinfer-python==0.6.3"))
    begun = time.process_time()
    found = check(traced, SM120, packages, opened=jit)
    assert time.process_time() - begun < 3
    return found


def test_the_hollow_family_is_named(findings: tuple[Finding, ...]) -> None:
    (hollow,) = [finding for finding in findings if finding.rule == "hollow"]
    assert hollow.what.startswith("lamport_style_one_shot_all_reduce_norm_kernel")
    assert (hollow.file, hollow.line, hollow.end_line) == (HEADER, 708, 789)
    assert hollow.reached is Reached.NO


def test_waits_that_are_compiled_out_are_named(findings: tuple[Finding, ...]) -> None:
    names = {finding.what.split()[0] for finding in findings if finding.rule == "unsynchronised"}
    assert {"rms_norm_kernel", "one_shot_all_reduce_norm_kernel", "twoShotAllReduceKernel"} <= names
    assert all(finding.reached is Reached.NO for finding in findings if finding.file == HEADER)


def test_riders_are_named(findings: tuple[Finding, ...]) -> None:
    (rider,) = [finding for finding in findings if finding.rule == "riders"]
    assert "sm_121" in rider.what


def test_all_gates_opened_leaves_nothing_hollow(traced: Chain) -> None:
    every = frozenset(gate.id for hop in (*traced.hops, *traced.apart) for gate in hop.gates)
    found = check(traced, SM120, below(fetch("flashinfer-python==0.6.3")), opened=every)
    assert not [finding for finding in found if finding.rule in {"hollow", "unsynchronised", "constant", "launcher"}]
