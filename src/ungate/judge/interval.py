"""The interval of a paired log-ratio, with a server start as the unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Interval", "Prior", "paired"]


@dataclass(frozen=True, slots=True)
class Prior:
    """What this machine's earlier A/A runs say of the spread between starts.

    ``spread`` is the standard deviation of a paired log-ratio at no effect; ``weight`` is how many
    degrees of freedom it is worth.
    """

    spread: float
    weight: float


@dataclass(frozen=True, slots=True)
class Interval:
    """Candidate over baseline: the geometric mean of the pairs' ratios and its interval at ``level``.

    ``spread`` is the standard deviation of one pair's log-ratio. ``low`` and ``high`` are None where a
    single pair and no prior leave nothing to compute a spread from.
    """

    ratio: float
    low: float | None
    high: float | None
    spread: float | None
    level: float
    pairs: int


def paired(ratios: Sequence[float], *, level: float = 0.95, prior: Prior | None = None) -> Interval:
    """Student's t interval of the mean log-ratio of ``ratios`` (candidate over baseline, one a pair of starts).

    With a prior the variance is the degrees-of-freedom weighted mean of both (the posterior scale of a
    scaled inverse chi-squared prior; Gelman et al., Bayesian Data Analysis, 3rd ed., section 2.6).
    Raises ValueError on an empty sequence and on a ratio that is not positive and finite: a missing reading
    has no place in it.
    """
    if not ratios:
        raise ValueError("an interval needs at least one pair of starts")
    if any(not math.isfinite(ratio) or ratio <= 0 for ratio in ratios):
        raise ValueError("a ratio must be positive and finite; leave a pair with a missing reading out")
    if not 0 < level < 1:
        raise ValueError("level is a probability between 0 and 1")
    logs = [math.log(ratio) for ratio in ratios]
    count = len(logs)
    mean = math.fsum(logs) / count
    squares = math.fsum((value - mean) ** 2 for value in logs)
    degrees = count - 1.0
    if prior is not None:
        squares += prior.weight * prior.spread**2
        degrees += prior.weight
    if degrees <= 0:
        return Interval(math.exp(mean), None, None, None, level, count)
    from scipy.special import stdtrit

    spread = math.sqrt(squares / degrees)
    half = float(stdtrit(degrees, 0.5 + level / 2)) * spread / math.sqrt(count)
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(min(mean + half, 700.0)), spread, level, count)
