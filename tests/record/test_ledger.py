"""What the ledger keeps; every test runs on SQLite, and with the mark postgres on a real server."""

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
from ungate.record import Hypothesis, Ledger, Step

CELL = Cell(4, 64, 32)
STEPS = (Task("Scan the packages", priority="high"), Task("Launch the baseline"))


def test_what_went_in_comes_out(place: str, tmp_path: Path) -> None:
    ledger = Ledger(place)
    run = ledger.begin("lab", "sm_120", tmp_path, STEPS, {"driver": None}, machine="m")
    ledger.step(run, 0, "completed")
    samples = (
        Sample("baseline", 0, CELL, "output_tokens_per_second", 101.5, "tok/s"),
        Sample("candidate", 1, CELL, "output_tokens_per_second", None, "tok/s", "the server died"),
    )
    verdict = Verdict(CELL, Decision.REVERT, "slower", 0.02, 0.01, 0.04, 0.95, 3, "spinning")
    ledger.samples(run, samples)
    ledger.verdicts(run, [verdict])
    ledger.end(run, "completed", reopen="a release of the library newer than 0.1")
    row = Ledger(place).run(run)
    assert row.verdicts == (verdict,)
    assert ledger.samples_of(run) == samples
    assert [task.status for task in row.tasks] == ["completed", "pending"]
    assert row.status == "completed" and row.ended and row.fingerprint == {"driver": None}
    assert row.machine == "m" and len(row.origin) == 32


def test_a_verdict_that_is_set_again_replaces_the_first(place: str, tmp_path: Path) -> None:
    ledger = Ledger(place)
    run = ledger.begin("lab", "sm_120", tmp_path, STEPS, {})
    ledger.verdicts(run, [Verdict(CELL, Decision.INCONCLUSIVE, "one pair")])
    ledger.verdicts(run, [Verdict(CELL, Decision.KEEP, "faster", 1.2, 1.1, 1.3, 0.95, 4)])
    (verdict,) = ledger.run(run).verdicts
    assert verdict.decision is Decision.KEEP and verdict.pairs == 4


def test_runs_come_newest_first_and_by_recipe(place: str, tmp_path: Path) -> None:
    ledger = Ledger(place)
    numbers = [ledger.begin(name, "sm_120", tmp_path, STEPS, {}) for name in ("a", "b", "a")]
    assert [row.id for row in ledger.runs()] == numbers[::-1]
    assert [row.id for row in ledger.runs("a")] == [numbers[2], numbers[0]]
    assert all([task.content for task in row.tasks] == [task.content for task in STEPS] for row in ledger.runs())


def test_an_interrupted_run_cancels_what_was_pending_and_a_resumed_one_takes_it_up(place: str, tmp_path: Path) -> None:
    ledger = Ledger(place)
    run = ledger.begin("lab", "sm_120", tmp_path, (*STEPS, Task("Judge")), {})
    ledger.step(run, 0, "completed")
    ledger.step(run, 1, "failed")
    ledger.end(run, "interrupted")
    assert [task.status for task in ledger.run(run).tasks] == ["completed", "failed", "cancelled"]
    ledger.resume(run)
    row = ledger.run(run)
    assert [task.status for task in row.tasks] == ["completed", "pending", "pending"]
    assert row.status == "running" and row.ended is None


def test_a_completed_step_counts_once_with_its_samples(place: str, tmp_path: Path) -> None:
    ledger = Ledger(place)
    run = ledger.begin("lab", "sm_120", tmp_path, STEPS, {})
    sample = Sample("baseline", 0, CELL, "m", 1.0, "u")
    for _ in range(2):
        ledger.complete(run, 1, [sample])
    assert ledger.samples_of(run) == (sample,)
    assert [task.status for task in ledger.run(run).tasks] == ["pending", "completed"]


def test_steps_are_planned_once_and_in_their_order(place: str, tmp_path: Path) -> None:
    ledger = Ledger(place)
    run = ledger.begin("lab", "sm_120", tmp_path, (), {})
    judge, start = Step("judge", 2000, Task("Judge")), Step("measure/00", 1001, Task("Start the baseline"))
    ledger.plan(run, [judge])
    ledger.step(run, 2000, "in_progress")
    ledger.plan(run, [judge, start])
    row = ledger.run(run)
    assert row.steps == ("measure/00", "judge")
    assert [task.status for task in row.tasks] == ["pending", "in_progress"]


def test_hypotheses_come_by_priority_and_are_settled(place: str, tmp_path: Path) -> None:
    ledger = Ledger(place)
    later = Task("Try without programmatic dependent launch", priority="low", criterion="recipe x, 5 %")
    first = Task("Open the fusion at tensor parallel 2", priority="high", criterion="recipe y, 10 %")
    ledger.suppose(Hypothesis(0, later))
    number = ledger.suppose(Hypothesis(0, first, "y", (CELL, Cell(1, 8, 8)), 0.1))
    found = ledger.hypotheses()
    assert [each.task for each in found] == [first, later]
    assert (found[0].recipe, found[0].cells, found[0].min_effect) == ("y", (CELL, Cell(1, 8, 8)), 0.1)
    run = ledger.begin("y", "sm_120", tmp_path, STEPS, {})
    ledger.settle(number, "in_progress", run)
    ledger.settle(number, "completed")
    assert ledger.hypotheses()[0].run == run and ledger.hypotheses()[0].task.status == "completed"


def test_a_status_outside_the_list_is_refused(place: str, tmp_path: Path) -> None:
    ledger = Ledger(place)
    run = ledger.begin("lab", "sm_120", tmp_path, STEPS, {})
    with pytest.raises(Exception, match=r"(?i)check"):
        ledger.step(run, 0, "done")
    assert ledger.run(run).tasks[0].status == "pending"


@pytest.mark.parametrize("text", ["a \udcff half character", "a zero \x00 byte", "\U0001f680 a rocket"])
def test_whatever_a_log_line_holds_can_be_kept(place: str, tmp_path: Path, text: str) -> None:
    ledger = Ledger(place)
    run = ledger.begin("lab", "sm_120", tmp_path, (Task(text),), {"note": text})
    ledger.samples(run, [Sample("baseline", 0, CELL, "m", None, "u", text)])
    ledger.verdicts(run, [Verdict(CELL, Decision.INCONCLUSIVE, text, diagnosis=text)])
    ledger.end(run, "failed", reopen=text)
    kept = [ledger.samples_of(run)[0].note, ledger.run(run).reopen, ledger.run(run).tasks[0].content]
    assert len(set(kept)) == 1 and kept[0].split()[0] == text.split(maxsplit=1)[0]


def test_a_wrong_type_is_refused(place: str, tmp_path: Path) -> None:
    ledger = Ledger(place)
    run = ledger.begin("lab", "sm_120", tmp_path, STEPS, {})
    with pytest.raises(Exception, match=r"(?i)real|double precision"):
        ledger.samples(run, [Sample("baseline", 0, CELL, "m", "fast", "u")])  # type: ignore[arg-type]
    assert ledger.samples_of(run) == ()


def test_an_unknown_run_is_a_sentence(place: str) -> None:
    with pytest.raises(Refusal, match="no run 7"):
        Ledger(place).run(7)


def _write_many(place: str, who: int) -> None:
    ledger = Ledger(place)
    run = ledger.begin(f"writer-{who}", "sm_120", Path("runs"), STEPS, {})
    for start in range(20):
        ledger.samples(run, [Sample("baseline", start, CELL, "m", float(start), "u")])
    ledger.end(run, "completed")


def test_several_processes_make_and_write_one_ledger_at_once(place: str) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(place, who)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    ledger = Ledger(place)
    rows = ledger.runs()
    assert len(rows) == 3
    assert all(len(ledger.samples_of(row.id)) == 20 for row in rows)


def _write_for_ever(place: str) -> None:
    ledger = Ledger(place)
    run = ledger.begin("victim", "sm_120", Path("runs"), STEPS, {})
    start = 0
    while True:
        ledger.samples(
            run, [Sample("baseline", start, CELL, "m", 1.0, "u"), Sample("candidate", start, CELL, "m", 1.0, "u")]
        )
        start += 1


def test_a_killed_writer_leaves_whole_rows(place: str) -> None:
    ledger = Ledger(place)
    victim = multiprocessing.get_context("spawn").Process(target=_write_for_ever, args=(place,))
    victim.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (ledger.runs() and ledger.samples_of(1)):
        time.sleep(0.02)
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join(10)
    samples = ledger.samples_of(1)
    assert samples and len(samples) % 2 == 0
    assert ledger.run(1).status == "running"


def test_an_older_file_is_brought_up(tmp_path: Path) -> None:
    """As the first two migrations left it, with a run in it."""
    from ungate.record import schema
    from ungate.record.sqlite import SqliteDatabase

    path = tmp_path / "ledger.sqlite"
    database = SqliteDatabase(path)
    newest = schema.MIGRATIONS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", newest[:2])
        schema.migrate(database)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for name in ("old", "older"):
            connection.execute(
                "INSERT INTO run (started, recipe, target, status, fingerprint, folder) "
                "VALUES ('2026-01-01', ?, 'sm_120', 'completed', '{}', 'f')",
                (name,),
            )
    rows = Ledger(path).runs()
    assert [row.recipe for row in rows] == ["older", "old"]
    assert len({row.origin for row in rows}) == 2 and all(row.origin for row in rows)
    assert Ledger(path).hypotheses() == ()


def test_a_file_that_is_no_database_is_a_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "ledger.sqlite"
    broken.write_bytes(b"not a database at all" * 100)
    with pytest.raises(Refusal, match="cannot be used"):
        Ledger(broken)


@pytest.mark.postgres
def test_a_server_that_is_not_there_is_a_sentence_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="cannot be reached") as refused:
        Ledger(f"postgresql://somebody:secret@/ledger?host={tmp_path}")
    assert "secret" not in str(refused.value)
