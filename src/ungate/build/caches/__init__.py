"""JIT caches: what each holds, and whether it still is what its sources would give.

One file a cache, registered by being here and offering ``CACHE``. A cache file only finds entries; that an entry is
fresh or stale is decided in :mod:`ungate.build.freshness`, for all caches alike.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cache", "Found", "caches", "home", "size_of"]


@dataclass(frozen=True, slots=True)
class Found:
    """One thing a cache holds, and what it says about where it comes from.

    ``path`` is what would be removed. ``outputs`` are the compiled files in it, ``inputs`` the files they were made
    from (None: the cache does not say). ``addressed``: the entry is named by a hash of all it was made from, so that a
    change of that gets another name. ``stale`` is a reason that is plain from the cache itself.
    """

    name: str
    path: Path
    owner: str
    version: str = ""
    arch: str = ""
    inputs: tuple[Path, ...] | None = None
    outputs: tuple[Path, ...] = ()
    addressed: bool = False
    locks: tuple[Path, ...] = ()
    stale: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache: its name, the folder it lies in given the environment variables, and how to find its entries.

    ``layout`` says where the layout is known from, for those that were never compared with one that a real build made.
    """

    name: str
    place: Callable[[Mapping[str, str]], Path]
    entries: Callable[[Path], Iterator[Found]]
    layout: str = ""


@functools.cache
def caches() -> tuple[Cache, ...]:
    """Every known cache, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}").CACHE for name in names)


def home(variables: Mapping[str, str]) -> Path:
    """The user's home folder in that environment."""
    return Path(variables.get("HOME") or Path.home())


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder, without following links."""
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                total += (Path(folder) / name).lstat().st_size
            except OSError:
                continue  # gone since it was listed
    return total
