"""Compilation targets and sets of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ungate.errors import Refusal

__all__ = ["KNOWN_ARCHS", "ArchSet", "Target"]

KNOWN_ARCHS: tuple[int, ...] = (75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121)
"""Compute capabilities as integers (90 = sm_90): what ``nvcc --list-gpu-arch`` of CUDA 13 lists, and 107."""


@dataclass(frozen=True, order=True, slots=True)
class Target:
    """A compilation target: compute capability and architecture suffix.

    ``number`` is 10 * major + minor (120 = sm_120). ``suffix`` is ``""`` (portable), ``"a"``
    (architecture specific) or ``"f"`` (family specific), as in nvcc's ``-arch=sm_120a``. Number 0 is no GPU at all,
    where a comparison is of switches on a CPU; it cannot be asked for.
    """

    number: int
    suffix: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read ``sm_120``, ``sm_120a``, ``compute_120f``, ``12.0``, ``12.0a`` or ``120``; Refusal on anything else."""
        match = re.fullmatch(r"(?:sm_?|compute_)?(\d{1,3})(?:\.(\d))?([af]?)", text.strip().lower())
        if match:
            whole, minor, suffix = match.groups()
            number = int(whole) * 10 + int(minor) if minor is not None else int(whole)
            if number in KNOWN_ARCHS:
                return cls(number, suffix)
        known = ", ".join(f"sm_{arch}" for arch in KNOWN_ARCHS)
        raise Refusal(
            f"'{text}' is not a compute capability that ungate knows ({known}).",
            "Pass one of these forms: --target sm_120, --target sm_120a, --target 12.0 or --target 120.",
        )

    @property
    def major(self) -> int:
        return self.number // 10

    @property
    def minor(self) -> int:
        return self.number % 10

    @property
    def macro(self) -> int:
        """The value of ``__CUDA_ARCH__`` in the device pass (1200 for sm_120)."""
        return self.number * 10

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}" if self.number else "cpu"


@dataclass(frozen=True, slots=True)
class ArchSet:
    """The compute capabilities that a condition lets through, each known, or not known, to pass.

    A gate of any language is reduced to this. ``yes`` pass for certain, ``unknown`` cannot be
    decided statically; all other members of :data:`KNOWN_ARCHS` are held back for certain.
    """

    yes: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()

    @classmethod
    def of(cls, archs: Iterable[int]) -> ArchSet:
        return cls(frozenset(archs))

    @classmethod
    def undecided(cls) -> ArchSet:
        return cls(frozenset(), frozenset(KNOWN_ARCHS))

    @property
    def decided(self) -> bool:
        return not self.unknown

    def lets(self, arch: int) -> bool | None:
        """True: passes; False: held back; None: not decided."""
        if arch in self.unknown:
            return None
        return arch in self.yes

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.yes))

    def __str__(self) -> str:
        if not self.decided:
            return "unknown"
        return " ".join(f"sm_{arch}" for arch in self) or "none"
