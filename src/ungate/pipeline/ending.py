"""The loads that were ended before their time, told by cell and arm; and whether a server breaks down under a load."""

from __future__ import annotations

from collections.abc import Sequence

from ungate.model import Cell
from ungate.pipeline.records import EarlyEnd, StartRecord

__all__ = ["breaks_down", "early_ends"]

_WORDS = {
    "collapsed": "collapsed",
    "hung": "the server hung",
    "ended": "the server broke down",
    "unfinished": "was given up unfinished",
}
_BROKEN = frozenset({"hung", "ended"})
_FEWEST = 2  # starts: once is an accident


def early_ends(starts: Sequence[StartRecord]) -> list[str]:
    """A sentence for each cell, arm and kind: in how many starts, after how many seconds of load, and why the first."""
    found: dict[tuple[Cell, str, str], list[EarlyEnd]] = {}
    for start in starts:
        for early in start.early:
            found.setdefault((early.cell, start.arm, early.kind), []).append(early)
    return [
        f"{cell}, {arm}: {_WORDS[kind]} in {len(ends)} of {len(_came(starts, arm))} starts, "
        f"and the load was ended after {_span([each.seconds for each in ends])} s ({ends[0].reason.rstrip('.')})."
        for (cell, arm, kind), ends in found.items()
    ]


def breaks_down(starts: Sequence[StartRecord], arm: str, cell: Cell, baseline: str) -> str:
    """Why ``cell`` cannot be served by ``arm``: its server hung or ended there in every start, the baseline's in none.

    Empty where that does not hold, or where it was tried once only.
    """
    mine = _came(starts, arm)
    ends = [each for start in mine for each in start.early if each.cell == cell and each.kind in _BROKEN]
    theirs = [each for start in starts if start.arm == baseline for each in start.early if each.cell == cell]
    if len(ends) < max(_FEWEST, len(mine)) or any(each.kind in _BROKEN for each in theirs):
        return ""
    why = ends[0].reason.rstrip(".")
    return f"the server breaks down under this load in {len(ends)} of {len(mine)} starts, the baseline's in none: {why}"


def _came(starts: Sequence[StartRecord], arm: str) -> list[StartRecord]:
    """The measured starts of an arm that came up."""
    return [start for start in starts if start.arm == arm and start.start >= 0 and start.ready_s is not None]


def _span(seconds: Sequence[float]) -> str:
    low, high = f"{min(seconds):.0f}", f"{max(seconds):.0f}"
    return low if low == high else f"{low} to {high}"
