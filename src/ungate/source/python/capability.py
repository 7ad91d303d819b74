"""The compute capability as a Python value, in whichever notation the code compares it with.

A capability is written as a tuple ``(9, 0)``, a major number, ``90``, ``900`` or a string such as ``"sm_90a"`` or
``"9.0"``. :class:`Capability` compares with all of them; what is no notation of a capability raises
:class:`NoCapability`, which ends in "this is not about the architecture".
"""

from __future__ import annotations

import re
from typing import Any

from ungate.model import KNOWN_ARCHS

__all__ = ["ARCH_NAME", "Capability", "NoCapability", "archs_of_name", "capability_number"]

ARCH_NAME = re.compile(r"(?:sm|compute|SM|arch|lto)_?(\d{2,3})([afxAFX]?)(?:-(?:real|virtual))?$")
_DOTTED = re.compile(r"(\d{1,2})\.(\d)([af]?)(?:\+PTX)?$")
_MINOR = re.compile(r"(\d)[af]?")
_BARE = re.compile(r"(\d{2,3})([af]?)$")


class NoCapability(Exception):
    """The other side of a comparison is no notation of a compute capability."""


def _family(number: int) -> frozenset[int]:
    """``sm_NNNf`` code runs on later minors of the same major (CUDA C++ Programming Guide)."""
    return frozenset(arch for arch in KNOWN_ARCHS if arch // 10 == number // 10 and arch % 10 >= number % 10)


def archs_of_name(text: str, *, bare: bool = False) -> frozenset[int] | None:
    """The archs that a name such as ``sm_90a``, ``sm_100f``, ``compute_120`` or ``9.0`` stands for, or None.

    A bare ``"90"`` counts only with ``bare``. ``sm_100f`` counts for 100 and 103, as cubins of that family run there.
    """
    if match := _DOTTED.fullmatch(text):
        number, suffix = int(match[1]) * 10 + int(match[2]), match[3]
    elif match := ARCH_NAME.fullmatch(text):
        number, suffix = int(match[1]), match[2].lower()
    elif bare and (match := _BARE.fullmatch(text)):
        number, suffix = int(match[1]), match[2]
    else:
        return None
    if not 30 <= number <= 130:
        return None
    if number == 101:  # what sm_110 was before CUDA 13
        number = 110
    if suffix == "x":
        return frozenset(arch for arch in KNOWN_ARCHS if arch // 10 == number // 10)
    if suffix == "f":
        return _family(number) - {107}
    return frozenset({number})


def capability_number(value: object) -> int | None:
    """``(9, 0)``, 90 or ``"sm_90"`` as 90; None for anything else."""
    match value:
        case (int() as major, int() as minor) if not isinstance(major, bool) and 5 <= major <= 13 and 0 <= minor <= 9:
            return major * 10 + minor
        case int() if not isinstance(value, bool) and 50 <= value <= 130:
            return value
        case str():
            archs = archs_of_name(value)
            return min(archs) if archs else None
        case _:
            return None


class Capability(tuple[int, int]):
    """``(major, minor)`` of one arch that also compares with ints and names."""

    __slots__ = ()

    @property
    def major(self) -> int:
        return self[0]

    @property
    def minor(self) -> int:
        return self[1]

    @property
    def number(self) -> int:
        return self[0] * 10 + self[1]

    def beside(self, other: Any) -> tuple[Any, Any]:
        """Self and the other operand in one notation, so that Python's own operators compare them."""
        match other:
            case bool() | None | float():
                raise NoCapability
            case int():
                if 5 <= other <= 20:
                    return self[0], other
                if 50 <= other <= 140:
                    return self.number, other
                if 500 <= other <= 1400 and other % 10 == 0:
                    return self.number * 10, other
                raise NoCapability
            case str():
                archs = archs_of_name(other, bare=True)
                if archs is None:
                    raise NoCapability
                return (self.number, self.number if self.number in archs else min(archs))
            case tuple() | list() if 1 <= len(other) <= 2 and all(isinstance(part, int) for part in other):
                if not 5 <= other[0] <= 20:
                    raise NoCapability
                return tuple(self), tuple(other)
            case (int() as major, str() as minor) if 5 <= major <= 20 and (match := _MINOR.fullmatch(minor)):
                return tuple(self), (major, int(match[1]))
            case _:
                raise NoCapability
