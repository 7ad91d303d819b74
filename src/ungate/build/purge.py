"""Remove what is stale, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ungate.build import usage
from ungate.build.freshness import Entry, State
from ungate.errors import Refusal, shell
from ungate.host.packages import canonical

__all__ = ["chosen", "remove"]


def chosen(entries: Sequence[Entry], owners: Sequence[str]) -> tuple[Entry, ...]:
    """The stale entries of the packages named. Refusal while a process uses one of their entries."""
    wanted = {canonical(owner) for owner in owners}
    theirs = [entry for entry in entries if canonical(entry.owner) in wanted]
    if busy := [entry for entry in theirs if entry.state is State.BUSY]:
        raise Refusal(
            f"Nothing is removed: {busy[0].name} in the {busy[0].cache} cache is in use, {busy[0].reason}.",
            "Stop the server first, then run the command again.",
        )
    return tuple(entry for entry in theirs if entry.state is State.STALE)


def _inside(entry: Entry) -> Path:
    """The path to remove, after making sure that no link leads it out of the cache."""
    root = entry.root.resolve()
    place = entry.path.parent.resolve() / entry.path.name
    if entry.path.name in {"", ".", ".."} or place == root or not place.is_relative_to(root):
        raise Refusal(
            f"{entry.path} is not removed: a link leads out of the cache {root}.",
            f"Look at it: ls -ld {shell(entry.path)}",
        )
    return place


def remove(entries: Sequence[Entry]) -> int:
    """Remove these entries; the bytes that were freed. A link is removed itself, never what it points to.

    All are checked before the first is removed: none may have come into use since they were surveyed.
    """
    places = [(_inside(entry), entry) for entry in entries]
    for root in {entry.root for entry in entries}:
        for pid, opened in usage.users(root).items():
            if used := next((e for place, e in places if any(path.is_relative_to(place) for path in opened)), None):
                raise Refusal(
                    f"Nothing is removed: process {pid} has {used.name} of the {used.cache} cache loaded by now.",
                    "Stop the server first, then run the command again.",
                )
    freed = 0
    for place, entry in places:
        if place.is_symlink() or not place.is_dir():
            place.unlink(missing_ok=True)
        else:
            # Renamed first: a process that looks for the module sees all of it or nothing.
            doomed = place.with_name(f".{place.name}.ungate-{os.getpid()}")
            place.rename(doomed)
            shutil.rmtree(doomed)
        freed += entry.size
    return freed
