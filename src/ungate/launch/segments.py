"""The shared-memory segments of a server, so that those it leaves behind can be named and removed.

A difference of two listings of ``/dev/shm`` would blame a server for what others did meanwhile. A segment
is taken to be ours when one of our processes had it open or mapped. Each is written down as soon as it is seen, so that
it can be told from others' after ungate itself was killed.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable
from pathlib import Path

__all__ = ["SHM", "SUFFIX", "Segments", "clear", "opened"]

SHM = Path("/dev/shm")

SUFFIX = ".segments"
"""Of the file beside a server's log that lists its segments while it runs: one JSON list of name and inode a line."""


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
    """The segments that one server's processes were seen to use since it was started, listed in ``written``.

    What cannot be listed (a full disk) is only not found again after a kill; the server runs all the same.
    """

    def __init__(self, pattern: str = "", written: Path | None = None) -> None:
        self._before = self._listing()
        self._ours: set[str] = set()
        self._written = written
        self._pattern = re.compile(pattern) if pattern else None

    @staticmethod
    def _listing() -> frozenset[str]:
        try:
            return frozenset(entry.name for entry in SHM.iterdir())
        except OSError:
            return frozenset()

    def look(self, pids: Iterable[int]) -> None:
        """Remember what these processes use now."""
        new = opened(pids) - self._before - self._ours
        self._ours |= new
        if new and self._written is not None:
            with contextlib.suppress(OSError), self._written.open("a", encoding="utf-8") as stream:
                stream.writelines(f"{json.dumps([name, inode])}\n" for name in sorted(new) if (inode := _inode(name)))

    def forget(self) -> None:
        """Take the list away: the server has ended, and what it left has been removed."""
        if self._written is not None:
            with contextlib.suppress(OSError):
                self._written.unlink()

    def leaked(self) -> tuple[str, ...]:
        """What is left of ours, once all our processes are gone, and is used by nobody else, sorted.

        New names with the engine's own pattern count too: a worker may have been killed before it was looked at.
        """
        now = self._listing() - self._before
        left = {name for name in now if name in self._ours or (self._pattern and self._pattern.search(name))}
        return tuple(sorted(left - _used())) if left else ()

    def remove(self, names: Iterable[str]) -> None:
        """Unlink segments that :meth:`leaked` named."""
        for name in names:
            with contextlib.suppress(OSError):
                (SHM / name).unlink()


def _inode(name: str) -> int | None:
    try:
        return (SHM / name).stat().st_ino
    except OSError:
        return None


def _used() -> frozenset[str]:
    """What any process that can be looked into has open."""
    return opened(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def clear(folder: Path) -> tuple[str, ...]:
    """Remove what servers whose logs lie below ``folder`` left behind when ungate was killed; the names, sorted.

    Only what was written down as a server's own, is still the same file and is used by nobody.
    """
    lists = sorted(folder.rglob(f"*{SUFFIX}"))
    noted: dict[str, int] = {}
    for path in lists:
        with contextlib.suppress(OSError, ValueError, TypeError):
            noted.update(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    names = {name: inode for name, inode in noted.items() if isinstance(name, str) and name and "/" not in name}
    left = {name for name, inode in names.items() if _inode(name) == inode}
    left -= _used() if left else frozenset()
    for name in left:
        with contextlib.suppress(OSError):
            (SHM / name).unlink()
    for path in lists:
        with contextlib.suppress(OSError):
            path.unlink()
    return tuple(sorted(left))
