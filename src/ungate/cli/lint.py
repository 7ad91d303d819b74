"""``ungate lint``: gates that contradict each other across packages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ungate.cli.options import environment_options, json_option, target_option
from ungate.cli.output import document, paper, progress
from ungate.plain import counted

if TYPE_CHECKING:
    from ungate.host.packages import Package
    from ungate.model import Finding, Recipe

__all__ = ["lint"]


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="(DIST | DIST==VERSION | DIR)...")
@target_option
@environment_options
@json_option
def lint(what: tuple[str, ...], target: str | None, site: Path | None, python: Path | None, as_json: bool) -> int:
    """Find what one layer lets in and the next one refuses: a default, a backend or a call that a gate opens for an
    architecture, and a check, a build list or a binary below it that does not have it.

    Name the engine and its libraries together. What is refused while running comes first, then what is not built,
    then places that only differ. Without --target, every architecture. Exit code 1 on findings.
    """
    from ungate import recipes
    from ungate.cli._wanted import wanted
    from ungate.errors import Exit
    from ungate.model import KNOWN_ARCHS, Target
    from ungate.scan import scan
    from ungate.trace import Trace
    from ungate.trace.lint import lint as compare

    aim = Target.parse(target) if target else None
    only = (aim.number,) if aim is not None else KNOWN_ARCHS
    with progress(quiet=as_json) as report:
        packages = wanted(what, site, python, report)
        found = scan(packages, report=report)
        report("following the calls")
        trace = Trace(packages, found, aim or Target(KNOWN_ARCHS[-1]))
        loaded = [recipes.load(name) for name in recipes.names()]
        named = [chain for recipe in loaded if _fits(recipe, packages) for chain in trace.ways(recipe)]
        report("comparing what is let in with what is refused")
        findings, followed = compare(trace, only, named)
    if as_json:
        read = [{"name": package.name, "version": package.version} for package in packages]
        document({"target": str(aim) if aim else None, "packages": read, "features": followed, "findings": findings})
    else:
        _print(findings, len(followed), len(found.gates), packages)
    return Exit.FINDINGS if findings else Exit.DONE


def _fits(recipe: Recipe, packages: Sequence[Package]) -> bool:
    return set(recipe.packages) <= {package.name for package in packages}


def _print(findings: Sequence[Finding], features: int, gates: int, packages: Sequence[Package]) -> None:
    from rich.text import Text

    out = paper()
    for finding in findings:
        out.print(Text.assemble((f"{finding.severity} ", "bold red"), (finding.rule, "bold")))
        out.print(Text(f"  {finding.what}"))
        out.print(Text(f"  {finding.evidence}", style="dim"))
        out.print(Text(f"  {finding.advice}", style="dim"))
    where = ", ".join(f"{package.name} {package.version}".strip() for package in packages)
    count = {0: "No contradiction", 1: "One contradiction"}.get(len(findings), f"{len(findings)} contradictions")
    if not features and not findings and not gates:
        out.print(f"Nothing was compared: no recipe is of {where}, and no default of theirs asks for an architecture.")
        out.print("Name the engine together with its libraries: ungate lint --help")
        return
    if not features:
        out.print(f"{count} in {counted(gates, 'gate')} of {where}; no flag was followed.")
        out.print("Name the engine together with its libraries: ungate lint --help")
        return
    looked = "one feature" if features == 1 else f"{features} features"
    out.print(f"{count} in {looked} of {where}.")
