"""Which of several ways is the fastest beyond the noise, when what is used today stays where nothing is clear."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ungate.judge.interval import Interval, paired

__all__ = ["Choice", "choose"]


@dataclass(frozen=True, slots=True)
class Choice:
    """``use`` is what to use, ``tied`` what the rounds cannot tell from it.

    ``ratio`` is the baseline's time over that of ``use`` with its interval at ``level``; None where ``use`` is the
    baseline or nothing was measured of it.
    """

    use: str
    tied: tuple[str, ...]
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = 0.95

    @property
    def clear(self) -> bool:
        """Whether one way stands alone."""
        return not self.tied


def choose(
    times: Mapping[str, Sequence[float]], baseline: str, *, min_effect: float = 0.03, level: float = 0.95
) -> Choice | None:
    """The fastest of ``times`` (for each way one time a round, all taken in the same rounds), or None without any.

    A way is told from another where the interval of their paired ratio excludes "no difference", at a level that is
    corrected for the number of ways (Bonferroni), and where they lie ``min_effect`` apart. Where the fastest cannot be
    told from the baseline, the baseline is used.
    """
    if not times:
        return None
    corrected = 1 - (1 - level) / max(1, len(times) - 1)
    ranked = sorted(times, key=lambda name: statistics.median(times[name]))
    best = ranked[0]
    against = {name: _ratio(times[name], times[best], corrected) for name in ranked[1:]}
    tied = tuple(name for name in ranked[1:] if not _told(against[name], min_effect))
    if tied and baseline in (best, *tied):
        others = tuple(name for name in (best, *tied) if name != baseline)
        return Choice(baseline, others, f"no difference between {baseline} and {', '.join(others)}", level=corrected)
    over = against.get(baseline)
    if over is None:
        reason = (
            f"{baseline} is the fastest" if best == baseline else f"{baseline} has no verified time to compare with"
        )
    else:
        reason = f"{best} takes {(1 - 1 / over.ratio) * 100:.0f} % less time than {baseline}"
    if tied:
        reason += f"; no difference between {', '.join((best, *tied))}"
    if over is None:
        return Choice(best, tied, reason, level=corrected)
    return Choice(best, tied, reason, over.ratio, over.low, over.high, corrected)


def _ratio(slower: Sequence[float], faster: Sequence[float], level: float) -> Interval:
    return paired([one / other for one, other in zip(slower, faster, strict=True)], level=level)


def _told(interval: Interval, min_effect: float) -> bool:
    return interval.low is not None and interval.low > 1 and interval.ratio >= 1 + min_effect
