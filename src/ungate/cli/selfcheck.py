"""``ungate selfcheck``: the load client against a fake server with known timings and faults."""

from __future__ import annotations

import click

from ungate.cli.options import json_option
from ungate.cli.output import document, paper, progress
from ungate.errors import Exit

__all__ = ["selfcheck"]


@click.command()
@json_option
def selfcheck(as_json: bool) -> int:
    """Check that the load client measures right and notices every fault of a server.

    Starts a fake server on the loopback address whose timings and faults are known and runs
    the same client against it that `ungate run` uses. Exit code 1 when something is not noticed.
    """
    from rich.table import Table

    from ungate.measure import selfcheck as stage

    with progress(quiet=as_json) as report:
        result = stage.selfcheck(report)
    if as_json:
        document({"passed": result.passed, "seconds": round(result.seconds, 2), "checks": result.checks})
        return Exit.DONE if result.passed else Exit.FINDINGS
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("", "check", "what the server does", "expected", "seen"):
        table.add_column(column, overflow="fold")
    for check in result.checks:
        mark = "[green]ok[/]" if check.passed else "[bold red]missed[/]"
        table.add_row(mark, check.name, check.what, check.expected, check.seen)
    console = paper()
    console.print(table)
    missed = sum(not check.passed for check in result.checks)
    total = len(result.checks)
    console.print(
        f"\nAll {total} checks passed in {result.seconds:.0f} s: the load client can be trusted on this machine."
        if not missed
        else f"\n{missed} of {total} checks failed: do not trust a measurement on this machine. "
        "Stop what else runs here and run it again: ungate selfcheck"
    )
    return Exit.DONE if result.passed else Exit.FINDINGS
