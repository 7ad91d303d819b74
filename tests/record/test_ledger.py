from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.model import Cell, Decision, Sample, Task, Verdict
from ungate.record import Ledger

CELL = Cell(4, 64, 32)
STEPS = (Task("Scan the packages", priority="high"), Task("Launch the baseline"))


def test_what_went_in_comes_out(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state" / "ledger.sqlite")
    run = ledger.begin("lab", "sm_120", tmp_path, STEPS, {"driver": None})
    ledger.step(run, 0, "completed")
    samples = (
        Sample("baseline", 0, CELL, "output_tokens_per_second", 101.5, "tok/s"),
        Sample("candidate", 1, CELL, "output_tokens_per_second", None, "tok/s", "the server died"),
    )
    verdict = Verdict(CELL, Decision.REVERT, "slower", 0.02, 0.01, 0.04, 0.95, 3, "spinning")
    ledger.samples(run, samples)
    ledger.verdicts(run, [verdict])
    ledger.end(run, "completed", reopen="a release of the library newer than 0.1")
    row = Ledger(ledger.path).run(run)
    assert row.verdicts == (verdict,)
    assert ledger.samples_of(run) == samples
    assert [task.status for task in row.tasks] == ["completed", "pending"]
    assert row.status == "completed" and row.ended and row.fingerprint == {"driver": None}


def test_an_interrupted_run_cancels_what_was_pending(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    run = ledger.begin("lab", "sm_120", tmp_path, STEPS, {})
    ledger.step(run, 0, "failed")
    ledger.end(run, "interrupted")
    assert [task.status for task in ledger.run(run).tasks] == ["failed", "cancelled"]


def test_hypotheses_come_by_priority(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    later = Task("Try without programmatic dependent launch", priority="low", criterion="recipe x, 5 %")
    first = Task("Open the fusion at tensor parallel 2", priority="high", criterion="recipe y, 10 %")
    ledger.suppose(later)
    ledger.suppose(first)
    assert ledger.hypotheses() == (first, later)


def test_an_older_file_is_brought_up(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger(path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE hypothesis")
        connection.execute("DELETE FROM migration WHERE name = '0002-hypotheses'")
    assert Ledger(path).hypotheses() == ()


def test_a_status_outside_the_list_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    run = ledger.begin("lab", "sm_120", tmp_path, STEPS, {})
    with pytest.raises(Exception, match="CHECK"):
        ledger.step(run, 0, "done")
    assert ledger.run(run).tasks[0].status == "pending"


def test_a_file_that_is_no_database_is_a_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "ledger.sqlite"
    broken.write_bytes(b"not a database at all" * 100)
    with pytest.raises(Refusal, match="cannot be used"):
        Ledger(broken)


def test_an_unknown_run_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no run 7"):
        Ledger(tmp_path / "ledger.sqlite").run(7)


def _write_many(path: str, who: int) -> None:
    ledger = Ledger(Path(path))
    run = ledger.begin(f"writer-{who}", "sm_120", Path(path).parent, STEPS, {})
    for start in range(20):
        ledger.samples(run, [Sample("baseline", start, CELL, "m", float(start), "u")])
    ledger.end(run, "completed")


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(str(path), who)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    ledger = Ledger(path)
    rows = ledger.runs()
    assert len(rows) == 3
    assert all(len(ledger.samples_of(row.id)) == 20 for row in rows)


def _write_for_ever(path: str) -> None:
    ledger = Ledger(Path(path))
    run = ledger.begin("victim", "sm_120", Path(path).parent, STEPS, {})
    start = 0
    while True:
        ledger.samples(
            run, [Sample("baseline", start, CELL, "m", 1.0, "u"), Sample("candidate", start, CELL, "m", 1.0, "u")]
        )
        start += 1


def test_a_killed_writer_leaves_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    victim = multiprocessing.get_context("spawn").Process(target=_write_for_ever, args=(str(path),))
    victim.start()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if path.exists() and Ledger(path).runs() and Ledger(path).samples_of(1):
            break
        time.sleep(0.02)
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join(10)
    ledger = Ledger(path)
    samples = ledger.samples_of(1)
    assert samples and len(samples) % 2 == 0
    assert ledger.run(1).status == "running"
