"""What must hold before a faster candidate may be kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ungate.model import Decision

__all__ = ["Guard", "failed"]


@dataclass(frozen=True, slots=True)
class Guard:
    """One condition of a keep.

    ``holds`` None means that it could not be established, which blocks a keep too. ``breaks`` is what the
    verdict becomes when the guard is known not to hold: wrong outputs are a reason to revert whatever the
    speed; a path that never ran makes the comparison say nothing about it.
    """

    name: str
    holds: bool | None
    evidence: str
    breaks: Decision = Decision.REVERT
    arm: str = "candidate"


def failed(guards: Sequence[Guard]) -> tuple[Guard, ...]:
    """The guards that block a keep: those that do not hold and those that could not be established."""
    return tuple(guard for guard in guards if guard.holds is not True)
