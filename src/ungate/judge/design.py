"""How many server starts, in which order, and whether such a plan can decide at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ungate.judge.interval import CAUTION, PRIOR_BELOW

__all__ = ["Plan", "order", "plan"]

BASELINE, CANDIDATE = "baseline", "candidate"


@dataclass(frozen=True, slots=True)
class Plan:
    """A design fixed before the first start.

    ``detectable`` is the smallest effect (a factor above 1, either way) whose interval excludes "no
    difference" in half of the runs at the assumed ``spread`` (standard deviation of one pair's log-ratio).
    """

    pairs: int
    level: float
    spread: float
    detectable: float
    can_decide: bool
    sentence: str
    arms: int = 2

    @property
    def starts(self) -> int:
        return self.arms * self.pairs


def order(pairs: int, arms: Sequence[str] = (BASELINE, CANDIDATE)) -> tuple[str, ...]:
    """The arms in the order they start: A B B A A B B A …, so that a linear drift cancels over two rounds.

    With three arms A B C C B A …; each round is one pair of every other arm with the baseline.
    """
    sequence: list[str] = []
    for number in range(pairs):
        sequence += arms if number % 2 == 0 else reversed(arms)
    return tuple(sequence)


def _half_width(pairs: int, level: float, spread: float, weight: float) -> float:
    """Of the interval to expect; with a prior of that ``weight`` as :func:`ungate.judge.interval.paired` takes it."""
    from scipy.special import stdtrit

    degrees, squares = pairs - 1.0, (pairs - 1) * spread**2
    if pairs < PRIOR_BELOW:
        degrees, squares = degrees + weight, squares + weight * (CAUTION * spread) ** 2
    return float(stdtrit(degrees, 0.5 + level / 2)) * math.sqrt(squares / degrees) / math.sqrt(pairs)


def plan(
    *,
    min_effect: float,
    spread: float,
    cells: int = 1,
    alpha: float = 0.05,
    most_pairs: int = 12,
    pairs: int | None = None,
    arms: int = 2,
    weight: float = 0.0,
) -> Plan:
    """The fewest pairs of starts that can tell ``min_effect`` (0.05 = 5 %) from nothing at ``alpha`` over ``cells``.

    The level of each cell is corrected for their number (Bonferroni). ``spread`` is the standard deviation of a
    paired log-ratio, from this machine's earlier runs or an assumption. Two pairs (A B B A) have one
    degree of freedom: at 5 % their t quantile is 12.7, so they decide only what is a collapse.
    With ``pairs`` given, the plan says what that many can decide. ``weight``: the degrees of freedom that
    the spread was measured with on this machine, 0 where it is assumed.
    """
    level = 1 - alpha / max(cells, 1)
    wanted = math.log1p(min_effect)
    chosen = pairs or next(
        (count for count in range(2, most_pairs + 1) if _half_width(count, level, spread, weight) <= wanted), most_pairs
    )
    detectable = math.inf if chosen < 2 else math.exp(_half_width(chosen, level, spread, weight))
    can = detectable <= 1 + min_effect
    seen = f"{(detectable - 1) * 100:.0f} %" if math.isfinite(detectable) else "no effect at all"
    sentence = (
        f"{chosen} pairs of starts can tell an effect of {seen} from noise "
        f"({spread * 100:.{0 if spread >= 0.01 else 1}f} % between starts{', measured here' if weight else ''}, "
        f"{level * 100:.1f} % level a cell)"
    )
    if not can:
        sentence += f"; the {min_effect * 100:.0f} % asked for needs more pairs or a quieter machine"
    return Plan(chosen, level, spread, detectable, can, sentence + ".", arms)
