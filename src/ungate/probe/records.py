"""What a probe finds, as it stands in its document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ungate.probe.candidates import Facts

__all__ = ["Cell", "Entrant", "Measured", "Request", "Shape", "State", "Survey"]


class State(Enum):
    """How far a candidate came, as a whole or at one size.

    ``WRONG``: it ran, and a sum was wrong or differed between ranks. ``REFUSED``: it does not take the size.
    ``FAILED``: an error of its own, told in words. ``ENDED``: it was not asked, because it had ended before.
    """

    OK = "ok"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    WRONG = "wrong"
    HUNG = "hung"
    CRASHED = "crashed"
    FAILED = "failed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Shape:
    """Elements a rank reduces in one call."""

    rows: int
    hidden: int

    @property
    def elements(self) -> int:
        return self.rows * self.hidden


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be probed. ``sizes`` are bytes a rank; ``world`` 0 stands for the GPUs; ``device`` auto, cuda or cpu.

    ``names`` are the candidates asked for (none: all). ``timeout_s`` is the deadline of each step of each candidate.
    ``extra`` is a folder with more candidate files.
    """

    sizes: tuple[int, ...]
    dtype: str = "bfloat16"
    world: int = 0
    device: str = "auto"
    names: tuple[str, ...] = ()
    timeout_s: float = 120.0
    rounds: int = 8
    replays: int = 5
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Entrant:
    """A candidate as the serving Python names it; ``unavailable`` is a sentence, or empty."""

    name: str
    what: str
    how: str
    device: str
    environment: Mapping[str, str]
    baseline: bool
    setup_s: float
    unavailable: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What the serving Python said."""

    facts: Facts
    entrants: tuple[Entrant, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One candidate at one size.

    ``us`` are microseconds a call, one figure a round: the median over its replays of the slower rank. ``error`` is the
    largest error seen, as a share of what is allowed; ``checks`` how many replays were compared, on every rank;
    ``graph`` whether the calls ran as one CUDA graph.
    """

    candidate: str
    size: int
    state: State
    reason: str = ""
    us: tuple[float, ...] = ()
    error: float | None = None
    checks: int = 0
    calls: int = 0
    graph: bool | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate and all its sizes; ``log`` holds the last lines of what it printed, where it did not end well."""

    entrant: Entrant
    state: State
    reason: str = ""
    cells: tuple[Cell, ...] = ()
    log: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
