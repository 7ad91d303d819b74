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
    from rich.text import Text

    from ungate.cli._rows import listed

    out = paper()
    if not rows:
        out.print("No tasks yet. Add one: ungate tasks add 'what to try' --criterion 'how it is decided'")
    cells = []
    for task in rows:
        status = Text(task.status.replace("_", " "), style=_WORDS[task.status])
        cells.append((status, task.priority, task.content, task.criterion))
    for part in listed(("status", "priority", "content", "completed when"), cells, out.width) if cells else ():
        out.print(part)


@click.group(invoke_without_command=True)
@click.option("--run", "number", type=int, metavar="N", help="The steps of run N; without it the newest run's.")
@click.option("--hypotheses", "only", is_flag=True, help="Only what was added with 'tasks add'.")
@json_option
@click.pass_context
def tasks(context: click.Context, number: int | None, only: bool, as_json: bool) -> int:
    """List the steps of a run and the hypotheses: content, status, priority, and what completes each."""
    if context.invoked_subcommand is not None:
        return 0
    from ungate.record import Ledger

    ledger = Ledger.here()
    steps: tuple[Task, ...] = ()
    if not only:
        if number is not None:
            steps = ledger.run(number).tasks
        elif rows := ledger.runs():
            steps = rows[0].tasks
    rows_shown = (*steps, *((each.task for each in ledger.hypotheses()) if number is None else ()))
    if as_json:
        document([plain(task) for task in rows_shown])
    else:
        _show(rows_shown)
    return 0


def _criterion(recipe: str, cells: tuple[str, ...], min_effect: float) -> str:
    where = f" at {', '.join(cells)}" if cells else ""
    return f"a verdict on {recipe}{where} for an effect of {min_effect * 100:g} %"


@tasks.command()
@click.argument("content")
@click.option("--priority", type=click.Choice(["high", "medium", "low"]), default="medium", show_default=True)
@click.option("--recipe", metavar="RECIPE", help="The recipe that decides it; 'ungate run --next' then can.")
@click.option(
    "--cell", "cells", multiple=True, metavar="CELL", help="c16-i1024-o256; repeatable. The recipe's without."
)
@click.option("--min-effect", type=click.FloatRange(0.001, 10), default=0.05, show_default=True, help="0.05 = 5 %.")
@click.option("--criterion", help="What decides it, in words; made from the recipe where it is left out.")
@json_option
def add(
    content: str,
    priority: str,
    recipe: str | None,
    cells: tuple[str, ...],
    min_effect: float,
    criterion: str | None,
    as_json: bool,
) -> int:
    """Record a hypothesis with its completion criterion: a recipe, cells and the smallest effect that matters.

    With --recipe it waits for 'ungate run --next', which takes the one of the highest priority; with --criterion
    alone a person decides it.
    """
    from ungate import recipes
    from ungate.record import Hypothesis, Ledger
    from ungate.record.rows import cell

    if recipe is not None:
        recipe = recipes.load(recipe).file or recipe  # whole: 'ungate run --next' may be given in another folder
    words = (criterion or (_criterion(recipe, cells, min_effect) if recipe else "")).strip()
    if not content.strip() or not words:
        raise Refusal(
            "A hypothesis needs a content, and a recipe or a criterion in words that decides it.",
            "See the form: ungate tasks add --help",
        )
    try:
        points = tuple(map(cell, cells))
    except ValueError as error:
        raise Refusal(
            f"{error}: requests in flight, prompt tokens, output tokens.", "See: ungate tasks add --help"
        ) from error
    task = Task(content.strip(), priority=priority, criterion=words)
    number = Ledger.here().suppose(Hypothesis(0, task, recipe or "", points, min_effect if recipe else None))
    if as_json:
        document({"hypothesis": number, "recipe": recipe, "cells": list(cells), "task": plain(task)})
    else:
        paper().print(f"Added hypothesis {number}. See all: ungate tasks --hypotheses")
    return 0
