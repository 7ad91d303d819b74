"""What a pattern hands to the engine: one gate as it was found, before it has an id, a package and a pass set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ungate.model import Form, Sense
from ungate.source.condition import Condition

__all__ = ["CHOICE", "Draft", "Finds", "Nothing", "left"]

CHOICE = "a choice of numbers: both ways go on alike, nothing is turned away"
"""The note of a gate in the role ``choice``."""


def left(archs: Iterable[int]) -> str:
    """The note of a gate that only these archs get as far as."""
    told = " ".join(f"sm_{arch}" for arch in sorted(archs)) or "no architecture"
    return f"the tests before it leave {told}"


@dataclass(frozen=True, slots=True)
class Draft:
    """One gate in one file.

    ``condition`` is the tree of the deciding text as it is written, ``sense`` what it means when that is
    true: for ``REFUSE`` the engine takes the complement, and what is unknown stays unknown. ``text`` is the
    condition for a reader. ``span`` is the byte range [start, end) of the deciding text, (0, 0) where there is
    none. ``role`` is one of test (arch numbers on the spot), use (a named predicate, flag or list), define (the
    body of one), mechanism (tests whatever it is given), source (reads the capability), choice (both ways go on alike,
    with other numbers: nothing is turned away). ``kind`` overrides the pattern's own.
    """

    line: int
    end_line: int
    condition: Condition
    text: str
    role: str = "test"
    form: Form = Form.FIXED
    span: tuple[int, int] = (0, 0)
    sense: Sense = Sense.ALLOW
    symbol: str = ""
    names: tuple[str, ...] = ()
    note: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Nothing:
    """A sample in which a pattern finds no gate; ``id`` says why there is none."""

    id: str
    source: str


@dataclass(frozen=True, slots=True)
class Finds:
    """A sample in which a pattern finds gates.

    ``passes`` maps each line (1-based) that is reported to the archs of ``KNOWN_ARCHS`` that get through, None
    where that is not known. ``decides`` maps a line to the exact deciding text in its span, where that matters.
    """

    id: str
    source: str
    passes: dict[int, tuple[int, ...] | None]
    decides: dict[int, str] | None = None
