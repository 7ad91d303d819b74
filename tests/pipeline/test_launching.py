"""Each arm started once on the lab: what is wrong stays wrong when the baseline is asked a second time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ungate.host.environment import resolve
from ungate.lab.install import command, install
from ungate.model import Cell, Target, Variant
from ungate.pipeline import Request, new_folder, run
from ungate.pipeline.launching import OUTPUTS
from ungate.recipes import load


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_arm_with_wrong_outputs_makes_the_baseline_answer_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Budget: a minute on 2 quiet cores."""
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    lab = install(tmp_path / "site")
    request = Request(
        recipe=replace(load("lab-allreduce-fusion"), cells=(Cell(2, 16, 16),)),
        environment=resolve(lab.site, None),
        target=Target(120),
        folder=new_folder("t"),
        until="launch",
        command=command(lab, port=0, tp=2),
        variables={"LAB_CUDA_ARCH_LIST": "12.0", "LAB_KERNELS_CACHE": str(tmp_path / "kernels")},
        start_deadline_s=120.0,
        arms=(Variant("broken", {"LAB_FAULT": "nan-after:1"}),),
    )
    outcome = run(request)
    held = {guard.arm: guard for guard in outcome.records.guards if guard.name == OUTPUTS}
    assert held["candidate"].holds is True, held
    assert (
        held["broken"].holds is False and "a second start of the baseline does not differ so" in held["broken"].evidence
    )
    tasks = {task["content"]: task["status"] for task in outcome.document["tasks"]}
    assert tasks["Start the baseline again: does it answer as before?"] == "completed"
    assert set(tasks.values()) == {"completed"}
