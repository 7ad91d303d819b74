"""From paired ratios and guards to keep, revert or inconclusive."""

from __future__ import annotations

from collections.abc import Sequence

from ungate.judge.guards import Guard, failed
from ungate.judge.interval import Interval, Prior, paired
from ungate.model import Cell, Decision, Verdict

__all__ = ["decide"]


def decide(
    cell: Cell,
    ratios: Sequence[float],
    guards: Sequence[Guard] = (),
    *,
    min_effect: float = 0.0,
    noise: float | None = None,
    level: float = 0.95,
    prior: Prior | None = None,
    diagnosis: str = "",
) -> Verdict:
    """The verdict of one cell from its pairs' ratios (candidate over baseline, above 1 is faster).

    Keep needs three things at once: the interval lies above 1, the ratio is at least 1 + ``min_effect`` and
    beyond the ``noise`` factor of two starts of one arm, and every guard holds. A guard that is known not
    to hold makes of it what ``Guard.breaks`` says; one that could not be established makes it inconclusive.
    Revert needs the interval below 1. No ratio at all, or no interval, is inconclusive.
    """
    if not ratios:
        return Verdict(cell, Decision.INCONCLUSIVE, "no pair of starts gave a reading of both arms", level=level)
    interval = paired(ratios, level=level, prior=prior)
    decision, reason = _by_speed(interval, min_effect, noise)
    blocked = failed(guards)
    broken = [guard for guard in blocked if guard.holds is False]
    if broken:
        reasons = [f"{guard.name}: {guard.evidence}" for guard in broken]
        if decision is Decision.REVERT:
            reasons.append(reason)
        elif any(guard.breaks is Decision.REVERT for guard in broken):
            decision = Decision.REVERT
        else:
            decision = Decision.INCONCLUSIVE
        reason = "; ".join(reasons)
    elif blocked and decision is Decision.KEEP:
        names = "; ".join(f"{guard.name} could not be established ({guard.evidence})" for guard in blocked)
        decision, reason = Decision.INCONCLUSIVE, f"faster, but {names}"
    return Verdict(
        cell, decision, reason, interval.ratio, interval.low, interval.high, level, interval.pairs, diagnosis
    )


def _by_speed(interval: Interval, min_effect: float, noise: float | None) -> tuple[Decision, str]:
    low, high = interval.low, interval.high
    if low is None or high is None:
        return Decision.INCONCLUSIVE, "one pair of starts has no interval"
    change = f"{(interval.ratio - 1) * 100:+.1f} %"
    if high < 1:
        return Decision.REVERT, f"slower: {change}, and the whole interval is below no difference"
    if low > 1:
        if interval.ratio < 1 + min_effect:
            return Decision.INCONCLUSIVE, f"faster by {change}, less than the {min_effect * 100:.0f} % asked for"
        if noise is not None and interval.ratio < noise:
            return Decision.INCONCLUSIVE, (
                f"faster by {change}, but two starts of the same arm lie {(noise - 1) * 100:.1f} % apart"
            )
        return Decision.KEEP, f"faster: {change}, and the whole interval is above no difference"
    if min_effect > 0 and low > 1 / (1 + min_effect) and high < 1 + min_effect:
        return Decision.INCONCLUSIVE, f"no difference as large as {min_effect * 100:.0f} % either way"
    return Decision.INCONCLUSIVE, f"{change}, but the interval also allows no difference at all"
