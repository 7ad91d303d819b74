"""What a killed run left behind is cleared up by the next one: its processes, its shared memory, its row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from ungate.host.children import MARKER
from ungate.host.environment import resolve
from ungate.lab.install import install
from ungate.launch.segments import SHM, SUFFIX
from ungate.model import Target, Task
from ungate.pipeline import Request, new_folder, run
from ungate.pipeline.resuming import clear_up, held
from ungate.recipes import load
from ungate.record import Hypothesis, Ledger
from ungate.record.living import LOCK


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))


def _killed(ledger: Ledger, hypothesis: int | None = None, marker: str = "") -> tuple[int, Path, Path]:
    """A run as a kill leaves it: its number, its folder and a segment of its server."""
    folder = new_folder("killed")
    number = ledger.begin("lab-allreduce-fusion", "sm_120", folder, (Task("Scan"),), {})
    (folder / "request.json").write_text(json.dumps({"marker": marker or uuid.uuid4().hex, "hypothesis": hypothesis}))
    (folder / LOCK).touch()
    segment = SHM / f"ungate-test-{uuid.uuid4().hex}"
    segment.write_bytes(b"x")
    logs = folder / "logs" / "candidate"
    logs.mkdir(parents=True)
    (logs / f"server-002{SUFFIX}").write_text(json.dumps([segment.name, segment.stat().st_ino]) + "\n")
    return number, folder, segment


def test_the_next_run_clears_up_after_one_that_was_killed(tmp_path: Path) -> None:
    ledger = Ledger.here()
    hypothesis = ledger.suppose(Hypothesis(0, Task("try it", status="in_progress", criterion="c"), "r"))
    marker = uuid.uuid4().hex
    number, _, segment = _killed(ledger, hypothesis, marker)
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, MARKER: f"other:{marker}"}
    )
    said: list[str] = []
    site = install(tmp_path / "site").site
    request = Request(load("lab-allreduce-fusion"), resolve(site, None), Target(120), new_folder("t"), until="doctor")
    run(request, lambda words, *_: said.append(words))
    assert f"cleared up after run {number}, which was killed" in said
    assert not segment.exists() and not psutil.pid_exists(left.pid)
    left.wait(0)
    assert [row.id for row in ledger.running()] == [] and ledger.run(number).status == "interrupted"
    assert ledger.run(number).ended and ledger.hypotheses()[0].task.status == "pending"


def test_a_run_that_is_alive_or_elsewhere_is_left_alone() -> None:
    ledger = Ledger.here()
    number, folder, segment = _killed(ledger)
    elsewhere = ledger.begin("lab-allreduce-fusion", "sm_120", Path("/no/such/folder"), (), {})
    try:
        with held(folder):
            assert clear_up(ledger) == ()
            assert segment.exists() and ledger.run(number).status == "running"
        assert clear_up(ledger) == (number,)
        assert not segment.exists()
        assert ledger.run(elsewhere).status == "running"
    finally:
        segment.unlink(missing_ok=True)


def test_a_request_that_cannot_be_read_does_not_stand_in_the_way() -> None:
    ledger = Ledger.here()
    number, folder, segment = _killed(ledger)
    (folder / "request.json").write_text("[")
    assert clear_up(ledger) == (number,)
    assert not segment.exists()
