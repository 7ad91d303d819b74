"""What a person names to be read: an installed distribution, a version from the index, or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ungate.host.packages import Package
    from ungate.host.progress import Report

__all__ = ["wanted"]


def wanted(what: Sequence[str], site: Path | None, python: Path | None, report: Report) -> tuple[Package, ...]:
    """The packages of DIST, DIST==VERSION (the installed one where it is of that version) or DIR arguments."""
    from ungate.errors import Refusal
    from ungate.host import packages
    from ungate.host.environment import resolve

    found: list[Package] = []
    for each in what:
        if not each.strip():
            raise Refusal("An empty name stands among the packages.", "Name a package or a folder: ungate scan DIR")
        if "==" in each:
            found.extend(_version(each, site, python, report))
        elif "/" in each or each.startswith(".") or Path(each).is_dir():
            found.extend(packages.below(Path(each)))
        else:
            found.append(packages.find(resolve(site, python), each))
    return tuple(found)


def _version(requirement: str, site: Path | None, python: Path | None, report: Report) -> tuple[Package, ...]:
    from ungate.errors import Refusal
    from ungate.host import index, packages
    from ungate.host.environment import resolve

    parsed = index.parse(requirement)
    try:
        present = packages.find(resolve(site, python), parsed.name)
    except Refusal:
        pass
    else:
        if parsed.specifier.contains(present.version, prereleases=True):
            return (present,)
    name = packages.canonical(parsed.name)
    read = packages.below(index.fetch(requirement, report))
    return tuple(package for package in read if packages.canonical(package.name) == name) or read
