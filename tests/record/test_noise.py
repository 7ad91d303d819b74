from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from ungate.host.facts import HostFacts
from ungate.host.machine import Machine
from ungate.model import Cell, Sample
from ungate.record import Ledger
from ungate.record.noise import machine, spread

CELLS = (Cell(1, 8, 8), Cell(4, 8, 8))


def _run(ledger: Ledger, arms: dict[str, list[float]], *, where: str = "m", same: bool = False) -> None:
    run = ledger.begin("r", "sm_120", Path("f"), (), {}, machine=where)
    ledger.samples(
        run,
        [
            Sample(arm, 2 * place, cell, "t", value, "u")
            for arm, values in arms.items()
            for place, value in enumerate(values)
            for cell in CELLS
        ],
    )
    ledger.end(run, "completed", fingerprint={"same_arms": same})


def _spread(ledger: Ledger) -> object:
    found = spread(ledger, machine="m", recipe="r", metric="t")
    return None if found is None else dataclasses.astuple(found)


def test_two_starts_of_the_baseline_give_one_difference(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    assert _spread(ledger) is None
    _run(ledger, {"baseline": [100.0], "candidate": [10.0]})
    assert _spread(ledger) is None
    _run(ledger, {"baseline": [100.0, 110.0, 90.0], "candidate": [10.0, 50.0, 20.0]})
    assert _spread(ledger) == (pytest.approx(math.log(1.1)), 1, 1)


def test_only_an_a_a_run_gives_its_candidate_too(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    _run(ledger, {"baseline": [100.0, 110.0], "candidate": [100.0, 121.0]}, same=True)
    value = math.sqrt((math.log(1.1) ** 2 + math.log(1.21) ** 2) / 2)
    assert _spread(ledger) == (pytest.approx(value), 2, 1)


def test_another_machine_and_a_missing_reading_do_not_count(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    _run(ledger, {"baseline": [100.0, 200.0]}, where="other")
    _run(ledger, {"baseline": [100.0, 0.0]})
    assert _spread(ledger) is None
    assert spread(ledger, machine="", recipe="r", metric="t") is None


def test_a_machine_is_known_by_what_decides_its_speed() -> None:
    facts = HostFacts(machine=Machine(processor="p", cores=2, kernel="6.1"), driver="580")
    newer = dataclasses.replace(facts, machine=dataclasses.replace(facts.machine, kernel="6.2"))
    assert machine(facts) == machine(newer) != machine(dataclasses.replace(facts, driver="590"))
    assert machine(None) == ""
