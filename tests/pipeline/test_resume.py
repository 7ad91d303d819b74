"""A run that is killed at any boundary between two steps goes on, and no finished step is repeated or lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from ungate.record import Ledger

READING = ("doctor", "scan", "trace", "check", "patch", "build")
LAUNCH = ("launch/baseline", "launch/candidate", "launch")
STARTS = ("measure/00-baseline", "measure/01-candidate", "measure/02-candidate", "measure/03-baseline", "measure")
SERVING = (*LAUNCH, *STARTS, "judge", "attribute", "report")
POINTS = ("before", "between", "after")


def _process(folder: Path, until: str, *moment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.pipeline.killer", str(folder), until, *moment],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[2],
    )


def _servers(folder: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in process.environ().get("PYTHONPATH", ""):
                found.append(f"{process.pid} {' '.join(process.cmdline())[:100]}")
        except psutil.Error:
            continue
    return found


def _killed_everywhere(folder: Path, until: str, moments: list[tuple[str, str]]) -> Counter[str]:
    """Kill at each moment in turn, then let the run end; how often each step was carried out."""
    for point, step in moments:
        done = _process(folder, until, point, step)
        assert done.returncode == -signal.SIGKILL, (point, step, done.returncode, done.stderr[-2000:])
    last = _process(folder, until)
    assert last.returncode in {0, 1, 2}, last.stderr
    return Counter((folder / "done").read_text(encoding="utf-8").split())


def _check(folder: Path, steps: tuple[str, ...]) -> dict[str, Any]:
    """The ledger and the document agree, every planned step is completed, and nothing of the run is left."""
    ledger = Ledger(folder / "state" / "ledger.sqlite")
    (row,) = ledger.runs()
    assert row.status == "completed"
    by_name = dict(zip(row.steps, row.tasks, strict=True))
    assert set(steps) <= by_name.keys()
    assert {task.status for task in row.tasks} == {"completed"}
    assert [task["status"] for task in json.loads((folder / "run" / "run.json").read_text())["tasks"]] == [
        "completed"
    ] * len(row.tasks)
    told: dict[str, Any] = json.loads((folder / "run" / "run.json").read_text(encoding="utf-8"))
    samples = [(s.arm, s.start, s.cell, s.metric) for s in ledger.samples_of(row.id)]
    assert len(samples) == len(set(samples)) == len(told["samples"])
    assert _servers(folder) == []
    return told


@pytest.mark.timeout(600)
def test_killed_at_every_boundary_before_a_server_is_needed(tmp_path: Path) -> None:
    moments = [(point, step) for step in READING for point in POINTS]
    counts = _killed_everywhere(tmp_path, "build", moments)
    # The one that was killed before its result was written had to be done again, and no other.
    assert counts == {step: 2 for step in READING}
    told = _check(tmp_path, READING)
    assert told["artifacts"][0]["hollow"] == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("points", [("between", "after"), ("before",)], ids="-".join)
def test_killed_at_every_boundary_of_a_campaign(tmp_path: Path, points: tuple[str, ...]) -> None:
    """Budget: three minutes each on 2 quiet cores."""
    moments = [(point, step) for step in SERVING for point in points]
    counts = _killed_everywhere(tmp_path, "report", moments)
    expected = {step: 1 for step in READING} | {step: 2 if points == ("before",) else 1 for step in SERVING}
    assert {step: counts[step] for step in expected} == expected
    told = _check(tmp_path, (*READING, *SERVING))
    assert len(told["starts"]) == 2 + 4 and len(told["verdicts"]) == 1
    assert {(s["arm"], s["start"]) for s in told["samples"]} == {
        ("baseline", 0),
        ("candidate", 1),
        ("candidate", 2),
        ("baseline", 3),
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_in_the_middle_of_a_load_the_server_does_not_outlive_the_resumption(tmp_path: Path) -> None:
    """Budget: a minute on 2 quiet cores."""
    done = _process(tmp_path, "report", "inside", "measure/01-candidate")
    assert done.returncode == -signal.SIGKILL, done.stderr
    counts = _killed_everywhere(tmp_path, "report", [])
    assert counts["measure/00-baseline"] == counts["measure/01-candidate"] == 1
    _check(tmp_path, SERVING)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_interrupted_and_resumed_from_the_command_line(tmp_path: Path) -> None:
    """Budget: two minutes on 2 quiet cores. Ctrl-C in the middle of the measuring, then ``run --resume``."""
    environment = {
        **os.environ,
        "UNGATE_STATE_DIR": str(tmp_path / "state"),
        "UNGATE_CACHE_DIR": str(tmp_path / "cache"),
    }
    ungate = [sys.executable, "-m", "ungate"]
    process = subprocess.Popen(
        [*ungate, "demo", "--ranks", "2", "--pairs", "2", "--load-seconds", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        # A shell that runs the tests in its background has SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    )
    ledger = Ledger(tmp_path / "state" / "ledger.sqlite")
    end = time.monotonic() + 400
    while time.monotonic() < end and not ledger.samples_of(1):
        time.sleep(0.2)
    assert process.poll() is None and ledger.samples_of(1)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in said, said
    assert ledger.runs()[0].status == "interrupted"
    first = ledger.samples_of(1)
    assert {sample.start for sample in first} == {0} and _servers(tmp_path) == []
    done = subprocess.run(
        [*ungate, "run", "--resume", "--json"], capture_output=True, text=True, timeout=300, env=environment
    )
    assert done.returncode in {0, 1, 2}, done.stderr
    assert ledger.samples_of(1)[: len(first)] == first
    assert ledger.runs()[0].status == "completed" and len(json.loads(done.stdout)["verdicts"]) == 2
    again = subprocess.run([*ungate, "run", "--resume"], capture_output=True, text=True, timeout=60, env=environment)
    assert again.returncode == 3 and "none to resume" in again.stderr


def test_a_run_is_not_taken_up_twice_at_once(tmp_path: Path) -> None:
    from ungate.errors import Refusal
    from ungate.pipeline.resuming import alive, held

    with held(tmp_path), pytest.raises(Refusal, match="still going on"), held(tmp_path):
        pass
    with alive(tmp_path, "m"):
        assert "m" in os.environ["UNGATE_CHILD"].split(":")
