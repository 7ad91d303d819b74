from __future__ import annotations

from pathlib import Path

import pytest

from ungate.host.facts import HostFacts
from ungate.host.gpus import Gpu
from ungate.model import Cell, Decision, Target, Verdict
from ungate.record import Ledger
from ungate.record.past import past

HERE = HostFacts(driver="580", gpus=(Gpu(0, "RTX PRO 6000"),))
PRINT = {"packages": {"flashinfer-python": "0.6.3"}, "driver": "580", "gpus": ["RTX PRO 6000"]}
VERDICT = Verdict(Cell(1, 8, 8), Decision.REVERT, "slower", 0.02)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "l")
    for recipe, target, more, verdicts in (
        ("flashinfer-allreduce-fusion", "sm_120", {}, [VERDICT]),
        ("flashinfer-allreduce-fusion", "sm_90", {}, [VERDICT]),
        ("flashinfer-allreduce-fusion", "sm_120a", {"same_arms": True}, [VERDICT]),
        ("flashinfer-allreduce-fusion", "sm_120a", {"stopped": "480 kernels have no body"}, []),
        ("flashinfer-allreduce-fusion", "sm_120", {}, []),
        ("other", "sm_120", {}, [VERDICT]),
    ):
        run = ledger.begin(recipe, target, tmp_path, (), {})
        ledger.verdicts(run, verdicts)
        ledger.end(run, "completed", fingerprint={**PRINT, **more}, reopen="another driver")
    return ledger


def test_a_run_counts_for_its_feature_and_target_when_it_came_to_something(ledger: Ledger) -> None:
    found = past(ledger.runs(), "flashinfer-allreduce-fusion", Target(120), None, None)
    assert [each.row.id for each in found] == [4, 1]
    assert [each.row.id for each in past(ledger.runs(), "allreduce", None, None, None)] == [4, 2, 1]
    assert past(ledger.runs(), "attention", Target(120), None, None) == ()


@pytest.mark.parametrize(
    ("versions", "facts", "holds", "said"),
    [
        ({"flashinfer-python": "0.6.3"}, HERE, True, ""),
        ({"flashinfer-python": "0.6.17"}, HERE, False, "flashinfer-python is 0.6.17 and was 0.6.3"),
        ({}, HERE, False, "not installed"),
        (None, HERE, None, "the version of flashinfer-python"),
        ({"flashinfer-python": "0.6.3"}, None, None, "the driver"),
        ({"flashinfer-python": "0.6.3"}, HostFacts(driver="590", gpus=HERE.gpus), False, "590, and was 580"),
        ({"flashinfer-python": "0.6.3"}, HostFacts(driver="580"), False, "the GPUs: none, and was RTX PRO 6000"),
    ],
)
def test_it_holds_while_nothing_has_changed(
    ledger: Ledger, versions: dict[str, str] | None, facts: HostFacts | None, holds: bool | None, said: str
) -> None:
    first = past(ledger.runs(), "flashinfer-allreduce-fusion", Target(120), versions, facts)[-1]
    assert first.holds is holds
    assert said in "; ".join((*first.changed, *first.unsure))
