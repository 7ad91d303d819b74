"""The list of steps is the same for a process that takes a run up as for the one that went before it."""

from __future__ import annotations

from pathlib import Path

from ungate.model import Task
from ungate.pipeline.journal import Journal
from ungate.record import Ledger

STAGES = ("judge", "attribute", "report")


def _begun(tmp_path: Path) -> tuple[Ledger, int]:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    return ledger, ledger.begin("recipe", "sm_120", tmp_path, (), {})


def _journal(ledger: Ledger, number: int, tmp_path: Path) -> Journal:
    journal = Journal(ledger, number, tmp_path / "steps", STAGES)
    for stage in STAGES:
        journal.plan(stage, [("", Task(f"Do {stage}"))])
    return journal


def test_experiments_that_a_finished_stage_planned_stay_in_the_list(tmp_path: Path) -> None:
    ledger, number = _begun(tmp_path)
    first = _journal(ledger, number, tmp_path)
    first.once("judge", int, lambda: 1)
    first.plan("attribute", [("size", Task("Find out why"))])
    for step in ("attribute/size", "attribute"):
        first.once(step, int, lambda: 2)
    again = _journal(ledger, number, tmp_path)
    again.once("attribute", int, lambda: 3)  # it is kept: nothing plans its experiments again
    assert again.tasks == first.tasks
    assert [(task.content, task.status) for task in again.tasks] == [
        ("Do judge", "completed"),
        ("Do attribute", "completed"),
        ("Find out why", "completed"),
        ("Do report", "pending"),
    ]


def test_a_result_counts_whatever_the_ledger_says_of_its_step(tmp_path: Path) -> None:
    """A process killed between the two leaves the result in its place and the step in progress."""
    ledger, number = _begun(tmp_path)
    first = _journal(ledger, number, tmp_path)
    first.once("judge", int, lambda: 1)
    ledger.step(number, 0, "in_progress")
    assert _journal(ledger, number, tmp_path).tasks[0].status == "completed"
