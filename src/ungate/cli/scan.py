"""``ungate scan``: every architecture gate of the packages, what passes it, and whether the target does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ungate.cli._wanted import wanted
from ungate.cli.options import environment_options, json_option, target_option
from ungate.cli.output import document, paper, progress

if TYPE_CHECKING:
    from ungate.host.packages import Package
    from ungate.host.progress import Report
    from ungate.model import Target

__all__ = ["scan"]


@click.command()
@click.argument("what", nargs=-1, metavar="[DIST | DIST==VERSION | DIR]...")
@target_option
@environment_options
@json_option
@click.option("--sarif", is_flag=True, help="Print SARIF 2.1.0 on stdout, for code review and CI.")
@click.option(
    "--vendored", is_flag=True, help="Show the gates of third-party trees too; they are not searched otherwise."
)
@click.option("--closed", is_flag=True, help="Only the gates that hold the target back.")
@click.option("--open", "opened", is_flag=True, help="Only the gates that let the target through.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    help="Processes that read side by side  [default: one a core, two to eight].",
)
@click.option("--no-cache", is_flag=True, help="Read every file again.")
def scan(
    what: tuple[str, ...],
    target: str | None,
    site: Path | None,
    python: Path | None,
    as_json: bool,
    sarif: bool,
    vendored: bool,
    closed: bool,
    opened: bool,
    jobs: int | None,
    no_cache: bool,
) -> int:
    """List every place that decides by GPU architecture, and which architectures it lets through.

    WHAT is an installed distribution, a DIST==VERSION (fetched into the cache where it is not installed) or a
    folder such as an unpacked wheel; without it, everything in --site or the environment.
    """
    from ungate.scan import scan as find_gates
    from ungate.scan.document import scan_document, shown
    from ungate.scan.sarif import sarif_log

    if as_json and sarif:
        raise click.UsageError("--json and --sarif are two forms of one answer; give one of them.")
    if closed and opened:
        raise click.UsageError("--closed and --open leave nothing out together; give one of them, or neither.")
    only = "closed" if closed else "open" if opened else None
    aim = _target(target)
    with progress(quiet=as_json or sarif) as report:
        packages = _packages(what, site, python, report)
        result = find_gates(packages, jobs=jobs, use_cache=not no_cache, report=report, vendored=vendored)
    gates = shown(result.gates, aim, vendored=vendored, only=only)
    if sarif:
        document(sarif_log(gates, aim, result.unread))
    elif as_json:
        document(scan_document(result, gates, aim))
    else:
        from ungate.cli._gates import told

        for line in told(result, gates, aim, packages):
            paper().print(line)
    return 0


def _target(text: str | None) -> Target | None:
    """The target that was named, else the local GPU's, else None."""
    from ungate.errors import Refusal
    from ungate.host.gpus import local_target
    from ungate.model import Target

    if text is not None:
        return Target.parse(text)
    try:
        return local_target()
    except Refusal:
        return None


def _packages(what: Sequence[str], site: Path | None, python: Path | None, report: Report) -> tuple[Package, ...]:
    if what:
        return wanted(what, site, python, report)
    from ungate.host import packages
    from ungate.host.environment import resolve

    return packages.below(site) if site is not None else packages.installed(resolve(site, python))
