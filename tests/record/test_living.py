"""A run whose process was killed reads as interrupted, a living one as running, whoever looks."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

from ungate.model import Task
from ungate.record import Ledger
from ungate.record.living import LOCK, gone

HOLD = """
import sys, time
from pathlib import Path
from ungate.pipeline.resuming import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_ledger_tells_a_killed_run_from_a_living_one(place: str, tmp_path: Path) -> None:
    ledger = Ledger(place)
    folder = tmp_path / "run"
    folder.mkdir()
    run = ledger.begin("lab", "sm_120", folder, (Task("Scan"), Task("Load")), {})
    ledger.step(run, 0, "in_progress")
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    assert ledger.run(run).status == "running" and [row.id for row in ledger.running()] == [run]
    os.kill(process.pid, signal.SIGKILL)
    process.wait(20)
    process.stdout.close()
    assert ledger.run(run).status == ledger.runs()[0].status == "interrupted"
    assert [task.status for task in ledger.run(run).tasks] == ["cancelled", "pending"]
    assert [row.id for row in ledger.running()] == [run], "nobody has closed it"
    ledger.end(run, "interrupted")
    assert [task.status for task in ledger.run(run).tasks] == ["cancelled", "cancelled"]
    ledger.end(run, "completed")
    assert ledger.run(run).status == "completed" and ledger.running() == ()


def test_what_is_not_here_is_not_known(tmp_path: Path) -> None:
    assert not gone("") and not gone(str(tmp_path)) and not gone(str(tmp_path / "elsewhere"))
    (tmp_path / LOCK).touch()
    assert gone(str(tmp_path))
    with (tmp_path / LOCK).open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert not gone(str(tmp_path))
    assert gone(str(tmp_path))
