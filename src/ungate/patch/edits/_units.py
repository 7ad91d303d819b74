"""How a number in source code names an architecture: major, compute capability, or ``__CUDA_ARCH__`` value."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ungate.model import KNOWN_ARCHS

__all__ = ["Unit", "covered", "spelled", "unit_of"]


class Unit(Enum):
    """What an integer stands for: 12, 120 or 1200."""

    MAJOR = "major"
    NUMBER = "number"
    MACRO = "macro"


def unit_of(values: Iterable[int]) -> Unit | None:
    """The unit that all values are in, None where they are in none or in several.

    The ranges do not overlap: majors are below 20, compute capabilities from 50 to 199, macro values from 500 on.
    """
    found = {_one(value) for value in values}
    return found.pop() if len(found) == 1 else None


def _one(value: int) -> Unit | None:
    if 0 < value < 20:
        return Unit.MAJOR
    if 50 <= value < 200:
        return Unit.NUMBER
    return Unit.MACRO if 500 <= value < 2000 and value % 10 == 0 else None


def spelled(archs: Iterable[int], unit: Unit) -> tuple[int, ...]:
    """The values to write for these archs, ascending."""
    match unit:
        case Unit.MAJOR:
            return tuple(sorted({arch // 10 for arch in archs}))
        case Unit.NUMBER:
            return tuple(sorted(archs))
        case Unit.MACRO:
            return tuple(sorted(arch * 10 for arch in archs))


def covered(archs: Iterable[int], unit: Unit) -> frozenset[int]:
    """The known archs that pass once these are written: a major brings all of its minors along."""
    archs = frozenset(archs)
    if unit is not Unit.MAJOR:
        return archs
    majors = {arch // 10 for arch in archs}
    return frozenset(arch for arch in KNOWN_ARCHS if arch // 10 in majors)
