"""What to compile: a module of a package, and its translation units."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Generated", "Module"]


@dataclass(frozen=True, slots=True)
class Generated:
    """A translation unit that the package writes while it builds, and whose text is worked out here."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Module:
    """A module that a package compiles on first use.

    ``sources`` are its translation units and ``generated`` those that are written first, ``includes`` the header
    folders in order, ``flags`` those of the device compiler without architecture. ``suffix`` is what the package
    appends to the target it was described for (with ``f`` it builds for sm_120f where the GPU is sm_120).
    ``prebuilt`` are libraries that the package loads instead of compiling these sources. ``notes`` say what of the
    package's description was not followed, or does not reach the target.
    """

    name: str
    package: str
    version: str
    file: str  # where the module is described, relative to the package's root
    line: int
    sources: tuple[Path, ...]
    includes: tuple[Path, ...]
    flags: tuple[str, ...]
    suffix: str = ""
    prebuilt: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    generated: tuple[Generated, ...] = ()
