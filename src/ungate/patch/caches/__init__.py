"""One file a JIT cache of the serving stack: which variables say where it lies.

An arm's caches lie in the arm's own folder, so that a baseline never loads what a candidate compiled. A file is
registered by being here and offering ``CACHE``.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cache", "caches", "environment"]


@dataclass(frozen=True, slots=True)
class Cache:
    """``variables`` maps each variable to its folder below the arm's cache folder, "" for the folder itself.

    ``shared`` maps variables to what keeps its usual place (below the home folder): downloads that are named by their
    content and that no edit changes. They are set only where the user has not set them.
    """

    name: str
    variables: Mapping[str, str]
    shared: Mapping[str, str]


@functools.cache
def caches() -> tuple[Cache, ...]:
    """Every known cache, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}").CACHE for name in names)


def environment(folder: Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Every cache variable, pointing below ``folder``; ``base`` is the environment that the arm starts from."""
    base = os.environ if base is None else base
    chosen: dict[str, str] = {}
    for cache in caches():
        for variable, place in cache.variables.items():
            chosen[variable] = str(folder / cache.name / place)
        for variable, place in cache.shared.items():
            if variable not in base:
                chosen[variable] = str(Path(base.get("HOME") or Path.home()) / place)
    return chosen
