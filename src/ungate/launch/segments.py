"""The shared-memory segments of a server, so that those it leaves behind can be named and removed.

A difference of two listings of ``/dev/shm`` would blame a server for what others did meanwhile. A segment
is taken to be ours when one of our processes had it open or mapped.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["SHM", "Segments", "opened"]

SHM = Path("/dev/shm")


def opened(pids: Iterable[int]) -> frozenset[str]:
    """Names below /dev/shm that these processes have mapped or open. Unreadable processes have none."""
    names: set[str] = set()
    prefix = f"{SHM}/"
    for pid in pids:
        folder = Path("/proc") / str(pid)
        with contextlib.suppress(OSError):
            for line in (folder / "maps").read_text(errors="replace").splitlines():
                _, found, name = line.partition(prefix)
                if found:
                    names.add(name.removesuffix(" (deleted)"))
        with contextlib.suppress(OSError):
            for link in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    aim = str(link.readlink())
                    if aim.startswith(prefix):
                        names.add(aim.removeprefix(prefix).removesuffix(" (deleted)"))
    return frozenset(names)


class Segments:
    """The segments that one server's processes were seen to use since it was started."""

    def __init__(self, pattern: str = "") -> None:
        self._before = self._listing()
        self._ours: set[str] = set()
        self._pattern = re.compile(pattern) if pattern else None

    @staticmethod
    def _listing() -> frozenset[str]:
        try:
            return frozenset(entry.name for entry in SHM.iterdir())
        except OSError:
            return frozenset()

    def look(self, pids: Iterable[int]) -> None:
        """Remember what these processes use now."""
        self._ours |= opened(pids) - self._before

    def leaked(self) -> tuple[str, ...]:
        """What is left of ours, once all our processes are gone, and is used by nobody else, sorted.

        New names with the engine's own pattern count too: a worker may have been killed before it was looked at.
        """
        now = self._listing() - self._before
        left = {name for name in now if name in self._ours or (self._pattern and self._pattern.search(name))}
        if not left:
            return ()
        others = opened(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return tuple(sorted(left - others))

    def remove(self, names: Iterable[str]) -> None:
        """Unlink segments that :meth:`leaked` named."""
        for name in names:
            with contextlib.suppress(OSError):
                (SHM / name).unlink()
