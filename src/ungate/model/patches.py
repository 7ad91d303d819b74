"""What opening a feature changes and builds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ungate.model.gates import Gate
from ungate.model.targets import ArchSet, Target

__all__ = ["Artifact", "Edit", "Series"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of one byte span in one file.

    ``start`` and ``end`` are byte offsets in the file as it was scanned, ``old`` and ``new`` the bytes
    there before and after. ``admits`` are the archs that pass afterwards; ``riders`` those that pass
    beside the target only because the gate's form cannot express less.
    """

    file: str
    start: int
    end: int
    old: bytes
    new: bytes
    gate: str = ""
    admits: ArchSet = field(default_factory=ArchSet)
    riders: tuple[int, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """An ordered, reversible list of edits.

    ``before`` and ``after`` map each edited file to the sha256 (hex) of its whole content.
    ``refused`` names gates that were asked for and not edited, with the reason in words.
    """

    name: str
    target: Target
    edits: tuple[Edit, ...]
    before: Mapping[str, str]
    after: Mapping[str, str]
    refused: tuple[tuple[Gate, str], ...] = ()
    digest: str = ""  # sha256 over the edits: the series' identity, and the name of its caches


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled object and what it holds for the target. Counts are of kernels (``__global__`` functions)."""

    path: Path
    target: str
    kernels: int | None
    hollow: int | None
    seconds: float
    note: str = ""
