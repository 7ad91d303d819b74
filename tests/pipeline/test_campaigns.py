"""Whole campaigns on the lab whose answer is known: the same twice, and a collapse with its cause."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ungate.host.environment import resolve
from ungate.lab.install import command, install
from ungate.model import Cell, Decision, Target, Variant
from ungate.pipeline import Outcome, Request, new_folder, run
from ungate.recipes import load
from ungate.record import Ledger
from ungate.record.noise import machine, spread

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

CELL = Cell(2, 16, 16)


@pytest.fixture
def request_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    lab = install(tmp_path / "site")

    def made(ranks: int, **changes: Any) -> Request:
        request = Request(
            recipe=replace(load("lab-allreduce-fusion"), cells=(CELL,)),
            environment=resolve(lab.site, None),
            target=Target(120),
            folder=new_folder("test"),
            command=command(lab, port=0, tp=ranks),
            variables={"LAB_CUDA_ARCH_LIST": "12.0", "LAB_KERNELS_CACHE": str(tmp_path / "kernels")},
            pairs=3,
            min_effect=0.25,
            budget_s=900.0,
            load_s=3.0,
            start_deadline_s=120.0,
        )
        return replace(request, **changes)

    return made


def _told(outcome: Outcome) -> str:
    return "; ".join(f"{v.arm}: {v.decision.value} {v.ratio} {v.reason}" for v in outcome.records.verdicts)


def test_the_same_twice_is_no_difference_and_tells_this_machines_noise(request_for: Any) -> None:
    """Budget: 90 s on 2 quiet cores. At a level of 95 % one campaign in forty says revert, so a second one may."""
    for _ in range(2):
        outcome = run(request_for(2, same=True))
        (verdict,) = outcome.records.verdicts
        assert verdict.decision is not Decision.KEEP, _told(outcome)
        assert verdict.low is not None and verdict.ratio is not None, _told(outcome)
        if verdict.decision is Decision.INCONCLUSIVE:
            break
    assert verdict.decision is Decision.INCONCLUSIVE and 1 / 1.5 < (verdict.ratio or 0.0) < 1.5, _told(outcome)
    assert outcome.records.policy is None
    found = spread(
        Ledger.here(),
        machine=machine(outcome.records.facts),
        recipe="lab-allreduce-fusion",
        metric="output_tokens_per_second",
    )
    assert found is not None and found.degrees >= 2 and 0 < found.value < 0.5
    assert run(replace(request_for(2), pairs=None, until="patch")).records.plan is None


@pytest.mark.skipif((os.cpu_count() or 1) >= 8, reason="ranks that have a core each do not collapse")
def test_a_collapse_is_measured_early_and_its_cause_is_looked_for(request_for: Any) -> None:
    """Budget: four minutes on 2 quiet cores. A further arm that changes nothing is judged beside it."""
    outcome = run(request_for(8, arms=(Variant("nothing", {"LAB_NOTE": "1"}),)))
    by_arm = {verdict.arm: verdict for verdict in outcome.records.verdicts}
    assert by_arm["candidate"].decision is Decision.REVERT, _told(outcome)
    assert by_arm["nothing"].decision is Decision.INCONCLUSIVE, _told(outcome)
    assert outcome.records.policy is not None and outcome.records.policy.nowhere
    early = [s for s in outcome.records.samples if s.arm == "candidate" and s.note.startswith("collapsed")]
    assert early and all(sample.value for sample in early if sample.metric == "output_tokens_per_second")
    found = {ablation.name: ablation.outcome for ablation in outcome.records.ablations}
    # The engine's gate is a switch, the build's is needed, and with the kernel's closed it has no body: fast and wrong.
    # What spins is in what all of them have in common.
    assert set(found.values()) <= {"switch", "needed", "not the cause", "wrong", "unknown"}
    assert {"switch", "needed", "wrong"} <= set(found.values()), outcome.records.ablations
    assert "The cause is not known" in outcome.records.cause
