"""What an experiment on a lost candidate says, and what all of them say together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ungate.judge import floor
from ungate.model import Cell, Variant, Verdict
from ungate.pipeline.arms import BASELINE, CANDIDATE
from ungate.pipeline.records import Ablation, Records
from ungate.pipeline.starting import THROUGHPUT, Start

__all__ = ["Change", "Tried", "judged", "metric_of", "named"]

_RECOVERED = 0.5  # of the way back to the baseline, on a logarithmic scale


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to change in the candidate; ``layer`` is the file whose edits are left out, or empty."""

    name: str
    said: str
    layer: str = ""
    variant: Variant | None = None


@dataclass(frozen=True, slots=True)
class Tried:
    """What a changed candidate gave: which path ran, and the primary metric; ``refused`` says why there is nothing.

    ``wrong`` says how its answers differ from the baseline's, empty where they do not.
    """

    active: bool | None = None
    value: float | None = None
    refused: str = ""
    note: str = ""
    wrong: str = ""
    seconds: float = 0.0


def metric_of(start: Start, cell: Cell, metric: str) -> tuple[float | None, str]:
    """The value of one metric, and what must be known about it."""
    found = next((s for s in start.samples if s.cell == cell and s.metric == metric), None)
    return (None, "nothing was measured") if found is None else (found.value, found.note)


def judged(records: Records, worst: Verdict, change: Change, tried: Tried, metric: str = THROUGHPUT) -> Ablation:
    """What came of one change, in the cell of ``worst``."""
    cell = worst.cell

    def result(outcome: str, said: str) -> Ablation:
        return Ablation(change.name, cell, tried.value, outcome, f"{change.said[:1].upper()}{change.said[1:]}: {said}.")

    if tried.refused:
        return result("needed", f"nothing starts ({tried.refused[:160].rstrip('.')})")
    if tried.value is None:
        return result("unknown", f"no reading ({tried.note[:160].rstrip('.')})")
    theirs, own = _medians(records, cell, metric)
    if not theirs or not own:
        return result("unknown", "there is nothing to compare it with")
    fast, slow = statistics.median(theirs), statistics.median(own)
    share = f"{tried.value / fast:.0%} of the baseline (the candidate: {slow / fast:.0%})"
    noise = floor([theirs, own]) or 1.0
    back = math.log(tried.value / slow) / math.log(fast / slow) if fast > slow else 0.0
    recovered = back >= _RECOVERED and tried.value > slow * noise
    if tried.wrong:
        # Kernels without a body are the fastest of all.
        return result("wrong", f"{share}, but its answers are wrong ({tried.wrong[:160].rstrip('.')})")
    if tried.active is False:
        return result("switch", f"the path does not run, {share}; this says nothing about the path")
    if tried.active is None:
        return result("unknown", f"{share}, but nothing shows whether the path ran")
    if recovered:
        return result("cause", f"the path runs and makes {share}")
    return result("not the cause", f"the path runs and makes {share}")


def _medians(records: Records, cell: Cell, metric: str) -> tuple[list[float], list[float]]:
    def of(arm: str) -> list[float]:
        return [s.value for s in records.samples if s.arm == arm and s.cell == cell and s.metric == metric and s.value]

    return of(BASELINE), of(CANDIDATE)


def named(found: Sequence[Ablation]) -> str:
    """What the experiments say together, in a sentence; empty where there was none."""
    if not found:
        return ""
    causes = [each.said.rstrip(".") for each in found if each.outcome == "cause"]
    if causes:
        return f"The cause, by experiment: {'; '.join(causes)}."
    ran = [each for each in found if each.outcome == "not the cause"]
    if ran:
        return (
            f"The cause is not known: in {len(ran)} of {len(found)} experiments the path still ran and stayed slow, "
            "so it is in what they have in common."
        )
    return f"The cause is not known: in none of {len(found)} experiments did the path run with one thing changed."
