"""A state folder that cannot be used is a sentence that says how to name another, and a run beside is told."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.host.environment import resolve
from ungate.lab.install import command, install
from ungate.model import Target
from ungate.pipeline import Request, forecast, new_folder
from ungate.pipeline.resuming import held
from ungate.recipes import load
from ungate.record import Ledger


def test_a_file_in_the_place_of_the_state_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").write_text("")
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    attempts: tuple[Callable[[], object], ...] = (lambda: new_folder("t"), Ledger.here)
    for attempt in attempts:
        with pytest.raises(Refusal, match=r"cannot be made") as told:
            attempt()
        assert told.value.next_step.endswith("export UNGATE_STATE_DIR=DIR")
    monkeypatch.setenv("UNGATE_LEDGER", str(tmp_path / "state" / "ledger.sqlite"))
    with pytest.raises(Refusal) as told:
        Ledger.here()
    assert "UNGATE_LEDGER" in told.value.next_step


def test_a_run_that_goes_on_beside_is_told_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    lab = install(tmp_path / "site")
    request = Request(load("lab-allreduce-fusion"), resolve(lab.site, None), Target(120), new_folder("t"), "report")
    request = dataclasses.replace(request, command=command(lab, port=0))
    assert "going on here" not in forecast(request)
    other = new_folder("other")
    with held(other):
        number = Ledger.here().begin("lab", "sm_120", other, (), {})
        assert f"Run {number} is still going on here" in forecast(request)
    assert "going on here" not in forecast(request), "a killed run disturbs nobody"
