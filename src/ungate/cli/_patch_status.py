"""What ``ungate patch status`` finds, and how it reads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ungate.cli._patch_series import named, patched_roots
from ungate.cli._patch_view import standing_lines
from ungate.cli.output import paper
from ungate.host.environment import Environment
from ungate.plain import counted

__all__ = ["show", "survey"]

_SHOWN = 12


def survey(environment: Environment, distributions: tuple[str, ...], *, remembered: bool = True) -> dict[str, Any]:
    """The stack of each folder and, for each package looked at, what deviates from its RECORD."""
    from ungate import recipes
    from ungate.host.packages import canonical, find, versions
    from ungate.patch import stack
    from ungate.patch.state import journal_of

    started = time.monotonic()
    roots = patched_roots(environment)
    pushed = {name for root in roots for each in stack.applied(root) for name in each.packages}
    if distributions:
        packages = tuple(find(environment, name) for name in distributions)
    else:
        there = versions(environment)
        known = {canonical(name) for name in recipes.packages()}
        packages = named(environment, (known | pushed) & set(there) | pushed)
    states = [(root, stack.standing(root, packages)) for root in roots]
    rows = []
    for root in dict.fromkeys(package.root.resolve() for package in packages):
        mine = tuple(package for package in packages if package.root.resolve() == root)
        for name, deviations in stack.pristine(mine, root, remembered=remembered).items():
            package = next(p for p in mine if p.name == name)
            rows.append({"name": name, "version": package.version, "root": root, "deviations": deviations})
    waiting = [root for root in roots if journal_of(root).pending()]
    return {
        "pristine": _pristine(rows, waiting),
        "cut_short": waiting,
        "series": [{"root": root, "standing": each} for root, some in states for each in some],
        "packages": rows,
        "seconds": round(time.monotonic() - started, 3),
    }


def _pristine(rows: Sequence[dict[str, Any]], waiting: Sequence[Path]) -> bool | None:
    """None where nothing was compared, or where all that differs could not be compared."""
    reasons = [reason for row in rows for _, reason in row["deviations"]]
    if waiting or not all(map(_unknown, reasons)):
        return False
    return True if rows and not reasons else None


def _unknown(reason: str) -> bool:
    return reason.startswith("unknown")


def show(found: dict[str, Any]) -> None:
    """Print a survey for a reader."""
    console = paper()
    for root in found["cut_short"]:
        console.print(
            f"A push or pop was cut short in {root}. Run: ungate patch recover", style="bold red", markup=False
        )
    for line in standing_lines([row["standing"] for row in found["series"]]):
        console.print(line)
    if not found["packages"]:
        console.print("No package that a recipe names is installed here. Name one: ungate patch status DIST")
    for row in found["packages"]:
        deviations = row["deviations"]
        head = f"{row['name']} {row['version']}"
        if not deviations:
            console.print(f"pristine    {head}: every file is as its RECORD says", style="green", markup=False)
            continue
        if all(_unknown(reason) for _, reason in deviations):
            console.print(f"unknown     {head}: it could not be compared", style="yellow", markup=False)
        else:
            many = counted(len(deviations), "file")
            console.print(f"changed     {head}: {many} not as installed", style="yellow", markup=False)
        for file, reason in deviations[:_SHOWN]:
            console.print(f"            {file}: {reason}", style="dim", markup=False)
        if len(deviations) > _SHOWN:
            console.print(f"            and {len(deviations) - _SHOWN} more; all of them with --json", style="dim")
    _verdict(found, console)


def _verdict(found: dict[str, Any], console: Any) -> None:
    where = sorted({str(Path(row["root"])) for row in found["packages"]})
    if where:
        words = {True: "is as it was installed", False: "is not as it was installed"}
        word = words.get(found["pristine"], "cannot be compared with what was installed")
        console.print(f"\n{', '.join(where)} {word} ({found['seconds']:.2f} s).", style="bold", markup=False)
