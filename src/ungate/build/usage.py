"""Who uses a cache right now: processes that have a file of it mapped or open, and processes that hold its locks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["lock_holders", "users"]


def _processes() -> list[Path]:
    return [place for place in Path("/proc").iterdir() if place.name.isdigit() and int(place.name) != os.getpid()]


def users(root: Path) -> dict[int, frozenset[Path]]:
    """Process to what it has mapped, open, or as its working folder below ``root``.

    Of the processes of other users only the superuser can know.
    """
    found: dict[int, set[Path]] = {}
    prefix = f"{root.resolve()}/"
    for place in _processes():
        with contextlib.suppress(OSError):
            for line in (place / "maps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
                _, _, name = line.partition(prefix)
                if name:
                    found.setdefault(int(place.name), set()).add(Path(prefix + name.removesuffix(" (deleted)")))
        with contextlib.suppress(OSError):
            for handle in (place / "fd").iterdir():
                with contextlib.suppress(OSError):
                    opened = str(handle.readlink())
                    if opened.startswith(prefix):
                        found.setdefault(int(place.name), set()).add(Path(opened))
        with contextlib.suppress(OSError):
            folder = str((place / "cwd").readlink())  # where ninja and the compilers it starts stand
            if f"{folder}/".startswith(prefix):
                found.setdefault(int(place.name), set()).add(Path(folder))
    return {pid: frozenset(files) for pid, files in found.items()}


def lock_holders(locks: Iterable[Path]) -> dict[Path, int]:
    """Lock file to the process that holds a lock on it, by ``/proc/locks``; nothing is locked to find out."""
    wanted: dict[tuple[int, int, int], Path] = {}
    for lock in locks:
        with contextlib.suppress(OSError):
            state = lock.stat()
            wanted[os.major(state.st_dev), os.minor(state.st_dev), state.st_ino] = lock
    found: dict[Path, int] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            # 1: FLOCK  ADVISORY  WRITE 708 08:01:1048595 0 EOF (proc(5)); "->" marks one that waits
            if len(words) >= 6 and words[1] != "->":
                with contextlib.suppress(ValueError):
                    major, minor, inode = words[5].split(":")
                    holder = wanted.get((int(major, 16), int(minor, 16), int(inode)))
                    if holder is not None:
                        found[holder] = int(words[4])
    return found
