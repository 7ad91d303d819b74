"""The interval of a paired log-ratio, with a server start as the unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["BOOTSTRAP_FROM", "CAUTION", "PRIOR_BELOW", "Interval", "Prior", "paired"]


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
    single pair and no prior leave nothing to compute a spread from. ``bootstrap``: the interval also covers the
    bootstrap's, which does not lean on the normal distribution.
    """

    ratio: float
    low: float | None
    high: float | None
    spread: float | None
    level: float
    pairs: int
    bootstrap: bool = False


BOOTSTRAP_FROM = 10
"""Pairs from which the bias-corrected and accelerated bootstrap (BCa) is asked too. With fewer its intervals are too
short: it can only draw again what it has (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 14)."""

PRIOR_BELOW = 4
"""Pairs from which this run's own starts say enough of its noise; with two the t quantile at 5 % is 12.7."""

CAUTION = 2.0
"""By how much the noise of a machine may have grown since the prior was measured, before a verdict is more often wrong
than it says (the calibration has a row for it)."""

_RESAMPLES = 4000
_OUTDATED = 0.05  # chance at which the earlier runs would show so much less noise than this one


def paired(ratios: Sequence[float], *, level: float = 0.95, prior: Prior | None = None) -> Interval:
    """Student's t interval of the mean log-ratio of ``ratios`` (candidate over baseline, one a pair of starts).

    With a prior and fewer than :data:`PRIOR_BELOW` pairs the variance is the degrees-of-freedom weighted mean of both
    (the posterior scale of a scaled inverse chi-squared prior; Gelman et al., Bayesian Data Analysis, 3rd ed., section
    2.6). The prior's spread counts :data:`CAUTION` times, since a machine is not as quiet today as it was; and not at
    all where this run's own variance is larger than even that beyond chance (F test at 5 %). From
    :data:`BOOTSTRAP_FROM` pairs on the interval is widened to hold the bootstrap's as well.
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
    if prior is not None and count < PRIOR_BELOW:
        cautious = Prior(CAUTION * prior.spread, prior.weight)
        if not _outdated(squares, degrees, cautious):
            squares += cautious.weight * cautious.spread**2
            degrees += cautious.weight
    if degrees <= 0:
        return Interval(math.exp(mean), None, None, None, level, count)
    from scipy.special import stdtrit

    spread = math.sqrt(squares / degrees)
    half = float(stdtrit(degrees, 0.5 + level / 2)) * spread / math.sqrt(count)
    low, high = mean - half, mean + half
    drawn = _bootstrap(logs, level) if count >= BOOTSTRAP_FROM else None
    if drawn is not None:
        low, high = min(low, drawn[0]), max(high, drawn[1])
    return Interval(math.exp(mean), math.exp(low), math.exp(min(high, 700.0)), spread, level, count, drawn is not None)


def _outdated(squares: float, degrees: float, prior: Prior) -> bool:
    """Whether ``squares`` (a sum, with ``degrees`` of freedom) is larger than the prior's spread explains."""
    if degrees <= 0:
        return False
    if prior.spread <= 0:
        return squares > 0
    from scipy.special import fdtrc

    return float(fdtrc(degrees, prior.weight, squares / degrees / prior.spread**2)) < _OUTDATED


def _bootstrap(logs: Sequence[float], level: float) -> tuple[float, float] | None:
    """The BCa interval of the mean; None where all values are equal, so that there is nothing to draw."""
    if len(set(logs)) == 1:
        return None
    import numpy as np
    from scipy.stats import bootstrap

    found = bootstrap(
        (np.asarray(logs),),
        np.mean,
        confidence_level=level,
        n_resamples=_RESAMPLES,
        method="BCa",
        rng=np.random.default_rng(0),  # the same pairs give the same verdict
    ).confidence_interval
    return (float(found.low), float(found.high)) if math.isfinite(found.low) and math.isfinite(found.high) else None
