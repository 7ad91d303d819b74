"""The caches of this environment and those of the overlays that ungate itself has made."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ungate.build.freshness import Entry
    from ungate.host.environment import Environment
    from ungate.host.progress import Report

__all__ = ["surveyed"]


def surveyed(env: Environment, names: Sequence[str], report: Report) -> tuple[Entry, ...]:
    """Every entry of the caches of ``env``, then of each overlay's own, each once.

    An overlay's caches are judged by the overlay's packages, which stand before the installed ones.
    """
    from ungate.build import freshness

    found: dict[Path, Entry] = {}
    for where, variables in ((env, os.environ), *_overlays(env)):
        for entry in freshness.survey(where, variables, names, report=report):
            found.setdefault(entry.path, entry)
    return tuple(found.values())


def _overlays(env: Environment) -> Iterator[tuple[Environment, Mapping[str, str]]]:
    from ungate.host.folders import cache_dir
    from ungate.patch import caches

    folder = cache_dir() / "overlays"
    for arm in sorted(folder.iterdir()) if folder.is_dir() else ():
        own = arm / "cache"
        if arm.is_symlink() or not own.is_dir():
            continue
        # Only what lies in the arm: its downloads are shared with the environment and listed there.
        inside = {name: place for name, place in caches.environment(own).items() if Path(place).is_relative_to(own)}
        yield replace(env, roots=(arm / "site", *env.roots)), {"HOME": str(own / "home"), "TMPDIR": str(own), **inside}
