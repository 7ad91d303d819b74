"""One file a gate pattern; a file is registered by being in this folder.

A pattern is a function from one read file to the gates in it::

    @pattern("py-version-list", kind="python-version-list", language="python")
    def find(module: PythonModule) -> Iterator[Draft]: ...

    @pattern("cuda-preprocessor", kind="preprocessor", language="cuda")
    def find(file: CudaFile) -> Iterator[Draft]: ...

The file's docstring shows the gate and the finding as printed; its ``SAMPLES`` (a tuple of
:class:`~ungate.scan.draft.Nothing` and :class:`~ungate.scan.draft.Finds`, those that find nothing first) are run by a
generated test. Where two patterns report the same line, the one with the lower ``rank`` is kept.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ungate.scan.draft import Draft, Finds, Nothing

__all__ = ["Pattern", "pattern", "patterns", "samples"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A registered pattern. ``language`` is ``"python"`` or ``"cuda"`` (CUDA, C and C++ alike)."""

    slug: str
    kind: str
    language: str
    find: Callable[[Any], Iterator[Draft]]
    rank: int = 50


_REGISTRY: dict[str, Pattern] = {}

_Find = Callable[[Any], Iterator[Draft]]


def pattern(slug: str, *, kind: str, language: str, rank: int = 50) -> Callable[[_Find], _Find]:
    """Register the decorated function as a pattern."""

    def register(find: _Find) -> _Find:
        _REGISTRY[slug] = Pattern(slug, kind, language, find, rank)
        return find

    return register


@functools.cache
def _import_all() -> None:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def patterns(language: str) -> tuple[Pattern, ...]:
    """The patterns of one language, in order of rank, then slug."""
    _import_all()
    chosen = (found for found in _REGISTRY.values() if found.language == language)
    return tuple(sorted(chosen, key=lambda found: (found.rank, found.slug)))


def samples() -> Iterator[tuple[Pattern, Nothing | Finds]]:
    """Every sample of every pattern."""
    _import_all()
    for found in sorted(_REGISTRY.values(), key=lambda each: each.slug):
        for sample in getattr(sys.modules[found.find.__module__], "SAMPLES", ()):
            yield found, sample
