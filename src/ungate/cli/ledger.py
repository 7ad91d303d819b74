"""``ungate ledger``: past runs and their verdicts, here and from other machines."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ungate.cli.options import json_option
from ungate.cli.output import document, notes, paper, plain
from ungate.plain import counted

__all__ = ["ledger"]

_STYLES = {"keep": "green", "revert": "red", "inconclusive": "yellow"}


@click.group(invoke_without_command=True)
@click.option("--recipe", metavar="RECIPE", help="Only the runs of this recipe.")
@json_option
@click.pass_context
def ledger(context: click.Context, recipe: str | None, as_json: bool) -> int:
    """List past runs, newest first: date, recipe, target, verdict of each cell, and what would reopen it.

    The ledger is a file in the state folder, or what UNGATE_LEDGER names: another file, or a PostgreSQL database
    that a team shares (postgresql://user@host/name).
    """
    if context.invoked_subcommand is not None:
        return 0
    from rich.text import Text

    from ungate.cli._rows import listed
    from ungate.record import Ledger

    rows = Ledger.here().runs(recipe)
    if as_json:
        document([plain(row) for row in rows])
        return 0
    if not rows:
        paper().print("No run yet. The whole loop on this machine: ungate demo")
        return 0
    cells = []
    for row in rows:
        verdict = Text()
        several = len({each.arm for each in row.verdicts}) > 1
        for each in row.verdicts:
            change = "" if each.ratio is None else f" {(each.ratio - 1) * 100:+.1f} %"
            verdict.append(f"{each.cell} {each.arm + ' ' if several else ''}", style="dim")
            verdict.append(f"{each.decision.value}", style=_STYLES[each.decision.value])
            verdict.append(f"{change}\n")
        verdict.rstrip()
        started = row.started[:16].replace("T", " ")
        cells.append((str(row.id), started, row.recipe, row.target, verdict or row.status, row.reopen))
    out = paper()
    for part in listed(("run", "started", "recipe", "target", "verdict", "worth trying again"), cells, out.width):
        out.print(part)
    return 0


@ledger.command()
@click.argument("runs", nargs=-1, type=int, metavar="[RUN]...")
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Write it there.")
def export(runs: tuple[int, ...], output: Path | None) -> int:
    """Write RUNs (without numbers all that have ended) as one JSON document, with their steps and samples.

    Of a server's command only what decides the outcome is in it.
    """
    from ungate.host.files import write
    from ungate.record import Ledger
    from ungate.record.exchange import export as told

    found = told(Ledger.here(), runs)
    if output is None:
        document(found)
        return 0
    write(output.absolute(), json.dumps(found, indent=1).encode())
    written = found["runs"]
    assert isinstance(written, list)
    notes().print(f"{counted(len(written), 'run')} written to {output}.", markup=False)
    return 0


@ledger.command(name="import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def import_(file: Path, as_json: bool) -> int:
    """Add the runs of FILE that are not here yet; each counts once, wherever it comes from."""
    from ungate.errors import Refusal
    from ungate.record import Ledger
    from ungate.record.exchange import take_in

    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Refusal(
            f"{file} cannot be read as exported runs: {error}.",
            "Write one on the other machine: ungate ledger export --output runs.json",
        ) from error
    added, had = take_in(Ledger.here(), content, str(file))
    if as_json:
        document({"added": added, "had": had})
    else:
        paper().print(f"{counted(added, 'run')} added, {had} here already. See them: ungate ledger")
    return 0
