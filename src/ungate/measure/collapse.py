"""When the rest of a load would tell nothing new: the candidate makes less than half of what the baseline had made.

Tokens are compared at the same moment of the load and not as a rate: until the first token of a long prompt comes,
every server's rate is 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ungate.measure.load import Progress
from ungate.measure.result import Stop
from ungate.model import Sample

__all__ = ["COLLAPSE", "LIMIT_S", "Collapse", "Curve", "Life", "curves"]

COLLAPSE = 0.5
"""A candidate with fewer than this share of the baseline's tokens is not awaited to the end of its requests."""

LIMIT_S = 60.0
"""A load that has collapsed ends within so many seconds of its beginning, its warm-up included."""

_STEPS, _STEP_S = 240, 0.5  # of a curve that is computed
_FEWEST = 32  # tokens, below which a few late ones would decide
_WARM_UP_S = 20.0  # of a slow warm-up: compilation is over by then, or the tokens that come tell nothing of it
_RECENT_S = 10.0
_SPARE_S = 3.0  # before the limit: what ends a load must be noticed, and its requests given up
_LEAST_S = 12.0  # of a measured phase behind a warm-up that took long, for its figure to be one


@dataclass(frozen=True, slots=True)
class Life:
    """Why a server that sends no token is not taken to hang; each empty where nothing says so.

    ``slow``: steps of the model end. ``busy``: none was seen to end, but somebody works or spins.
    """

    slow: str = ""
    busy: str = ""

    @property
    def words(self) -> str:
        return self.slow or self.busy


_UNTOLD = Life()


@dataclass(frozen=True, slots=True)
class Curve:
    """Tokens that had arrived at moments of one load: ``seconds`` since its beginning, ascending."""

    seconds: tuple[float, ...]
    tokens: tuple[int, ...]

    def at(self, moment: float) -> float:
        """Tokens by ``moment``; beyond the end at the last known rate."""
        place = bisect_right(self.seconds, moment)
        if not place:
            return 0.0
        if place == len(self.seconds):
            return self.tokens[-1] * moment / self.seconds[-1] if self.seconds[-1] > 0 else 0.0
        return self.tokens[place - 1]


def curves(samples: Sequence[Sample]) -> tuple[Curve, ...]:
    """What earlier starts had made by when, from the metrics that were kept of one cell: one curve a start.

    Nothing until the time to the first token, or where that is not known to the end of a request, then the throughput.
    """
    found = []
    for start in sorted({(sample.arm, sample.start) for sample in samples}):
        known = {sample.metric: sample.value for sample in samples if (sample.arm, sample.start) == start}
        rate = known.get("output_tokens_per_second")
        delay = next((value for name in ("ttft_p90", "e2e_p90") if (value := known.get(name)) is not None), 0.0)
        if rate:
            steps = range(1, _STEPS + 1)
            seconds = tuple(delay + step * _STEP_S for step in steps)
            found.append(Curve(seconds, tuple(int(rate * step * _STEP_S) for step in steps)))
    return tuple(found)


class Collapse:
    """Asked at each progress of one load; ``curve`` is this load's own, for those that come after it.

    ``healthy`` are the baseline's curves of the same cell: without any nothing is ever stopped. ``load_s`` is how
    long the load is to last. A stop comes when it has lasted so long or the limit is near; with fewer than 32 tokens
    not before the latter: the figure of a shorter time would be of the prompts alone.
    """

    def __init__(self, healthy: Sequence[Curve], load_s: float) -> None:
        self._healthy, self._load_s = tuple(healthy), max(2.0, load_s)
        self._phase, self._base, self._before_s = "", 0, 0.0
        self._points: list[tuple[float, int]] = []
        self._total = 0
        self.silent = False

    @property
    def curve(self) -> Curve | None:
        """The tokens of the measured phase so far; None before it has two points."""
        if self._phase != "measure" or len(self._points) < 2:
            return None
        return Curve(tuple(seconds for seconds, _ in self._points), tuple(tokens for _, tokens in self._points))

    def stop(self, progress: Progress, life: Life = _UNTOLD) -> Stop | None:
        """What follows from ``progress``; ``life`` tells why the server is not taken to hang although no token comes.

        In the warm-up a stop ends that only. A stop is usable: so many tokens in so many seconds is a measurement.
        Where not one came, or none in the second half, ``silent`` is set: the server has yet to show that it answers.
        """
        if progress.phase != self._phase:
            self._before_s = self._points[-1][0] if self._points else 0.0
            self._phase, self._points, self._base = progress.phase, [], self._total
        self._total = progress.tokens
        made = progress.tokens - self._base
        self._points.append((progress.seconds, made))
        if not self._healthy:
            return None
        if progress.phase != "measure":
            return self._warm_up(progress.seconds, life)
        last_s = max(LIMIT_S - _SPARE_S - self._before_s, _LEAST_S)
        expected = median(curve.at(progress.seconds) for curve in self._healthy)
        if progress.seconds < min(self._load_s, last_s) or expected < _FEWEST or made >= COLLAPSE * expected:
            return None
        if made < _FEWEST and progress.seconds < last_s:
            return None
        if not made:
            self.silent = bool(life.words)
            words = f"no token in {progress.seconds:.0f} s ({life.words})"
            return Stop(f"collapsed: {words}", usable=True) if life.words else None
        # Tokens at first and none since may be a server that has come to hang in the middle.
        last = next(moment for moment, tokens in self._points if tokens == made)
        self.silent = last < progress.seconds / 2
        words = f"{made} tokens in {progress.seconds:.0f} s, {expected:.0f} of the baseline by then"
        return Stop(f"collapsed: {words}", usable=True)

    def _warm_up(self, seconds: float, life: Life) -> Stop | None:
        """Slow in both halves of the last ten seconds: tokens that come at last, after a compilation, say nothing.

        Where they come more seldom than that the last forty seconds are looked at, and where none comes the signs of
        life decide.
        """
        if seconds < _WARM_UP_S + _RECENT_S:
            return None
        for span in (_RECENT_S, 4 * _RECENT_S):
            made = self._made(seconds, span)
            if seconds >= span and made is not None and (all(made) or life.words):
                count = sum(made)
                said = f"{count} tokens in {span:.0f} s" if count else f"no token in {span:.0f} s, {life.words}"
                return Stop(f"the warm-up is slow: {said}", usable=True)
        return None

    def _made(self, seconds: float, span: float) -> tuple[int, int] | None:
        """The tokens of the two halves of the last ``span`` seconds; None where one of them is not slow."""
        rates = [curve.tokens[-1] / curve.seconds[-1] for curve in self._healthy if curve.seconds[-1] > 0]
        limit = COLLAPSE * median(rates) * span / 2 if rates else 0.0
        first, middle, last = (
            next(made for moment, made in self._points if moment >= seconds - back) for back in (span, span / 2, 0.0)
        )
        halves = (middle - first, last - middle)
        return halves if max(halves) < limit else None
