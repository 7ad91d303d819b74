"""``ungate report``: the page of a run, made anew from its document."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ungate.cli.options import json_option
from ungate.cli.output import document, paper
from ungate.errors import Refusal

__all__ = ["report"]


@click.command()
@click.argument("run", required=False, type=int)
@click.option("--markdown", is_flag=True, help="Print a Markdown summary for an issue or a pull request instead.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the page here.")
@json_option
def report(run: int | None, markdown: bool, output: Path | None, as_json: bool) -> int:
    """Write one self-contained HTML page for RUN (without a number the newest of this machine) and print its path."""
    from ungate.host.files import write
    from ungate.record import Ledger
    from ungate.report import render, summary

    ledger = Ledger.here()
    rows = ledger.runs()
    if not rows:
        raise Refusal("There is no run to report on yet.", "The whole loop on this machine: ungate demo")
    here = (row for row in rows if row.folder and (Path(row.folder) / "run.json").is_file())
    row = next(here, rows[0]) if run is None else ledger.run(run)
    if not row.folder:
        raise Refusal(
            f"Run {row.id} was imported from another machine, and its page stayed there.",
            f"See what came of it: ungate known {row.recipe}",
        )
    source = Path(row.folder) / "run.json"
    try:
        told = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Refusal(
            f"Run {row.id} has no readable document at {source}: {getattr(error, 'strerror', None) or error}.",
            f"Its steps and verdicts are in the ledger: ungate tasks --run {row.id}",
        ) from error
    if markdown:
        text = summary(told)
        if as_json:
            document({"run": row.id, "markdown": text})
        else:
            click.echo(text, nl=False)
        return 0
    page = output or Path(row.folder) / "report.html"
    write(page, render(told).encode("utf-8"))
    if as_json:
        document({"run": row.id, "report": str(page)})
    else:
        paper().print(str(page), soft_wrap=True)
    return 0
