"""``ungate tasks``: the steps of a run and the hypotheses that wait for one."""

from __future__ import annotations

import click

from ungate.cli.options import json_option
from ungate.cli.output import document, paper, plain
from ungate.errors import Refusal
from ungate.model import Task

__all__ = ["tasks"]

_WORDS = {"completed": "green", "failed": "red", "in_progress": "cyan", "cancelled": "dim", "pending": ""}


def _show(rows: tuple[Task, ...]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=bool(rows))
    for heading in ("status", "priority", "content", "completed when"):
        table.add_column(heading, overflow="fold")
    for task in rows:
        status = Text(task.status.replace("_", " "), style=_WORDS[task.status])
        table.add_row(status, task.priority, Text(task.content), Text(task.criterion))
    paper().print(
        table if rows else "No tasks yet. Add one: ungate tasks add 'what to try' --criterion 'how it is decided'"
    )


@click.group(invoke_without_command=True)
@click.option("--run", "number", type=int, metavar="N", help="The steps of run N; without it the newest run's.")
@click.option("--hypotheses", "only", is_flag=True, help="Only what was added with 'tasks add'.")
@json_option
@click.pass_context
def tasks(context: click.Context, number: int | None, only: bool, as_json: bool) -> int:
    """List the steps of a run and the hypotheses: content, status, priority, and what completes each."""
    if context.invoked_subcommand is not None:
        return 0
    from ungate.host.folders import state_dir
    from ungate.record import Ledger

    ledger = Ledger(state_dir() / "ledger.sqlite")
    steps: tuple[Task, ...] = ()
    if not only:
        if number is not None:
            steps = ledger.run(number).tasks
        elif rows := ledger.runs():
            steps = rows[0].tasks
    rows_shown = (*steps, *(ledger.hypotheses() if number is None else ()))
    if as_json:
        document([plain(task) for task in rows_shown])
    else:
        _show(rows_shown)
    return 0


@tasks.command()
@click.argument("content")
@click.option("--priority", type=click.Choice(["high", "medium", "low"]), default="medium", show_default=True)
@click.option("--criterion", required=True, help="What decides it: recipe, cells and the smallest effect that matters.")
@json_option
def add(content: str, priority: str, criterion: str, as_json: bool) -> int:
    """Record a hypothesis with its completion criterion."""
    from ungate.host.folders import state_dir
    from ungate.record import Ledger

    if not content.strip() or not criterion.strip():
        raise Refusal("A hypothesis needs a content and a criterion in words.", "See the form: ungate tasks add --help")
    task = Task(content.strip(), priority=priority, criterion=criterion.strip())
    number = Ledger(state_dir() / "ledger.sqlite").suppose(task)
    if as_json:
        document({"hypothesis": number, **{"task": plain(task)}})
    else:
        paper().print(f"Added hypothesis {number}. See all: ungate tasks --hypotheses")
    return 0
