"""``ungate ledger``: past runs and their verdicts."""

from __future__ import annotations

import click

from ungate.cli.options import json_option
from ungate.cli.output import document, paper, plain

__all__ = ["ledger"]

_STYLES = {"keep": "green", "revert": "red", "inconclusive": "yellow"}


@click.command()
@click.argument("recipe", required=False)
@json_option
def ledger(recipe: str | None, as_json: bool) -> int:
    """List past runs, newest first: date, recipe, target, verdict of each cell, and what would reopen it."""
    from rich.table import Table
    from rich.text import Text

    from ungate.record import Ledger

    rows = Ledger.here().runs(recipe)
    if as_json:
        document([plain(row) for row in rows])
        return 0
    if not rows:
        paper().print("No run yet. The whole loop on this machine: ungate demo")
        return 0
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "started", "recipe", "target", "verdict", "worth trying again"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        verdict = Text()
        for each in row.verdicts:
            change = "" if each.ratio is None else f" {(each.ratio - 1) * 100:+.1f} %"
            verdict.append(f"{each.cell} ", style="dim")
            verdict.append(f"{each.decision.value}", style=_STYLES[each.decision.value])
            verdict.append(f"{change}\n")
        verdict.rstrip()
        started = row.started[:16].replace("T", " ")
        table.add_row(str(row.id), started, row.recipe, row.target, verdict or row.status, row.reopen)
    paper().print(table)
    return 0
