"""What to compile: a module of a package, and its translation units."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Module"]


@dataclass(frozen=True, slots=True)
class Module:
    """A module that a package compiles on first use.

    ``sources`` are its translation units, ``includes`` the header folders in order, ``flags`` those of the device
    compiler without architecture. ``suffix`` is what the package appends to a bare target from sm_90 on (with ``a``
    it builds for sm_120a where the GPU is sm_120). ``prebuilt`` are libraries that the package loads instead of
    compiling these sources. ``notes`` say what of the package's description was not followed.
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
