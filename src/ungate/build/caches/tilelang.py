"""TileLang: ``$TILELANG_CACHE_DIR`` or ``~/.tilelang/cache``, a folder named by a hash a kernel (tilelang/env.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.build.caches import Cache, Found, home

__all__ = ["CACHE"]


def _place(variables: Mapping[str, str]) -> Path:
    chosen = variables.get("TILELANG_CACHE_DIR")
    return Path(chosen) if chosen else home(variables) / ".tilelang" / "cache"


def _entries(root: Path) -> Iterator[Found]:
    for folder in sorted(root.iterdir()):
        if folder.is_dir() and not folder.is_symlink() and folder.name != "tmp":
            outputs = tuple(sorted([*folder.glob("*.so"), *folder.glob("*.cubin")]))
            yield Found(folder.name, folder, "tilelang", outputs=outputs, addressed=True)


CACHE = Cache("tilelang", _place, _entries, layout="its layout is known from its source alone")
