"""The figures of one load run, computed from the raw outcomes, and the reasons not to believe them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ungate.measure.priority import ALLOW
from ungate.measure.stream import Outcome
from ungate.model import Cell

__all__ = [
    "FEWEST_DRIFT",
    "MAX_CACHED",
    "MAX_LAG_S",
    "MAX_LAG_SHARE",
    "MAX_PER_EVENT",
    "MAX_SHIFTED",
    "MAX_ZERO_GAPS",
    "ZERO_GAP_S",
    "LoadResult",
    "Spread",
    "Stop",
    "spread",
    "summarise",
]

ZERO_GAP_S = 5e-5
"""Gaps below this many seconds came in one read of the socket: the chunks were glued together on the way."""

MAX_ZERO_GAPS = 0.05
"""Above this share of zero gaps a cell is invalid. Starved API servers showed 0.57 to 0.75; healthy ones under 0.02."""

MAX_SHIFTED = 0.01
"""Glued chunks put tokens off, and those that were put off over an edge of the window were made on the other side.
Where every wait over an edge is below this share of the window, throughput is known to one percent, whatever was
glued between the edges and although no latency is."""

MAX_PER_EVENT = 1.05
"""Above this many tokens an event the gaps are between chunks and not between tokens: speculative decoding sends
several at once, and so does a server that falls behind."""

MAX_CACHED = 0.02
"""Above this share of prompt tokens from a prefix cache a cell is invalid: a warm cache alone has made a sweep
2.3 times as fast, and not every cell by the same factor."""

FEWEST_DRIFT = 32
"""Tokens that each half of a window must hold, for a change of speed between them to say anything."""

MAX_LAG_S = 0.02
MAX_LAG_SHARE = 0.05
"""A cell is invalid when the 99th percentile of the client's own event-loop lag is above both: the seconds, and the
share of a request's mean time. Each request of a closed loop waits for the client once, so its share bounds what the
lag takes from the throughput; a server that makes a token in 50 ms is not measured wrong by a lag of 25."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends a run early. ``usable`` when the figures so far hold (a collapse seen soon enough), False after a fault."""

    reason: str
    usable: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles of one latency, in seconds; ``count`` values went in."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float


def spread(values: Sequence[float]) -> Spread | None:
    """None when there is no value: missing is not zero."""
    if not values:
        return None
    array = np.asarray(values, dtype=np.float64)
    p50, p90, p99 = (float(value) for value in np.percentile(array, [50, 90, 99]))
    return Spread(len(values), float(array.mean()), p50, p90, p99)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """One cell on one server start.

    Latencies in seconds, over the requests that succeeded; ``itl`` is None where chunks hold several tokens.
    ``window_s`` is the span that throughput refers to: with a duration, from the end of the ramp until the last
    request may start; with a number of requests, from the first start to the last end. ``invalid`` lists why the
    cell's figures must not be compared; ``stopped`` is the reason of an early stop, and then tokens of requests that
    were cut off count for ``tokens_per_second``. Both rates are None when nothing arrived. ``zero_gaps`` and
    ``cached`` are shares of 1: gaps between tokens that are zero, prompt tokens from a prefix cache. ``drift`` is the
    throughput of the window's second half over that of its first, None where one of them holds few tokens.
    """

    cell: Cell
    mode: str
    outcomes: tuple[Outcome, ...]
    window_s: float
    tokens_per_second: float | None
    requests_per_second: float | None
    ttft: Spread | None
    tpot: Spread | None
    itl: Spread | None
    e2e: Spread | None
    zero_gaps: float | None
    cached: float | None
    lag_p99_s: float | None
    client_cpu_s: float
    seconds: float
    faults: tuple[tuple[str, int], ...] = ()
    invalid: tuple[str, ...] = ()
    stopped: str = ""
    notes: tuple[str, ...] = field(default=())
    glued: str = ""  # that of ``invalid`` which is about glued chunks
    edge_gap_s: float | None = None  # the longest wait for a token over the window's begin or end
    drift: float | None = None

    def unfit(self, metric: str) -> str:
        """Why one metric (a name as in :func:`ungate.measure.metrics.samples`) must not be compared, or nothing.

        What holds for the cell holds for each, but for one: glued chunks say nothing of tokens and requests a second
        nor of the time to the end, if few can have been put off over an edge of the window.
        """
        counted = metric.startswith(("output_tokens_per_second", "requests_per_second", "e2e", "failed_share"))
        moved = self.edge_gap_s is None or self.edge_gap_s > MAX_SHIFTED * self.window_s
        return "; ".join(reason for reason in self.invalid if reason != self.glued or moved or not counted)

    @property
    def completed(self) -> int:
        return sum(outcome.ok for outcome in self.outcomes)

    @property
    def failed(self) -> int:
        return sum(count for _, count in self.faults)

    @property
    def valid(self) -> bool:
        return not self.invalid


def _events(outcome: Outcome) -> tuple[float, ...]:
    """Arrival times without a closing event that carries the finish reason and no token."""
    if outcome.tokens is not None and len(outcome.times) == outcome.tokens + 1 and outcome.tokens > 0:
        return outcome.times[:-1]
    return outcome.times


def _window_tokens(outcomes: Sequence[Outcome], begin: float, end: float, held: float) -> float:
    """Tokens that arrived in [begin, end]; an event that carried several counts with its share of the usage.

    A request that was cut off when the run was stopped has no usage: its events count ``held`` tokens each.
    """
    total = 0.0
    for outcome in outcomes:
        times = _events(outcome)
        if times:
            inside = sum(begin <= moment <= end for moment in times)
            total += inside * (held if outcome.tokens is None else outcome.tokens / len(times))
    return total


def _edge_gap(outcomes: Sequence[Outcome], begin: float, end: float) -> float | None:
    """The longest wait for a token, the first one's included, that began on one side of an edge and ended on the other;
    None without a token."""
    waits = [pair for each in outcomes if each.times for pair in pairwise((each.start, *_events(each)))]
    over = (later - earlier for earlier, later in waits if earlier < begin < later or earlier < end < later)
    return max(over, default=0.0) if waits else None


def _drift(outcomes: Sequence[Outcome], begin: float, end: float, held: float) -> float | None:
    middle = (begin + end) / 2
    first, second = (_window_tokens(outcomes, *half, held) for half in ((begin, middle), (middle, end)))
    return second / first if min(first, second) >= FEWEST_DRIFT else None


def summarise(
    cell: Cell,
    mode: str,
    outcomes: Sequence[Outcome],
    window: tuple[float, float],
    *,
    lags: Sequence[float],
    client_cpu_s: float,
    seconds: float,
    stop: Stop | None = None,
    late: int = 0,
    cached: float | None = None,
    notes: tuple[str, ...] = (),
) -> LoadResult:
    """``window`` is [begin, end] on the clock of the outcomes; ``late`` counts requests not sent when due.

    ``cached`` is the number of prompt tokens that the server found in its prefix cache, None where it does not tell.
    Where a usable stop came before the first token, throughput is that of one token: it cannot have been more.
    """
    good = [outcome for outcome in outcomes if outcome.ok]
    flowing = [outcome for outcome in outcomes if outcome.ok or (stop and outcome.cut)]
    begin, end = window
    width = max(0.0, end - begin)
    ttft: list[float] = []
    tpot: list[float] = []
    itl: list[float] = []
    e2e: list[float] = []
    for outcome in good:
        times = _events(outcome)
        ttft.append(times[0] - outcome.due)
        e2e.append(outcome.end - outcome.due)
        if outcome.tokens is not None and outcome.tokens > 1:
            tpot.append((times[-1] - times[0]) / (outcome.tokens - 1))
        itl.extend(later - earlier for earlier, later in pairwise(times))
    events = sum(len(_events(outcome)) for outcome in good)
    held = sum(outcome.tokens or 0 for outcome in good) / events if events else 1.0
    several = held > MAX_PER_EVENT
    if several:
        notes = (*notes, f"a chunk holds {held:.1f} tokens on average: the time between tokens is not known")
    zero_gaps = sum(gap < ZERO_GAP_S for gap in itl) / len(itl) if itl else None
    lag = float(np.percentile(np.asarray(lags), 99)) if lags else None
    faults = Counter(outcome.fault for outcome in outcomes if outcome.fault and not (stop and outcome.cut))
    ended = sum(begin <= outcome.end <= end for outcome in good)
    tokens = _window_tokens(flowing, begin, end, max(1.0, held))
    if not tokens and stop and stop.usable and any(outcome.cut for outcome in outcomes):
        tokens = 1.0
        notes = (*notes, f"no token came in {width:.0f} s: the throughput is an upper bound")
    usable = tokens > 0 and width > 0

    invalid = []
    if stop and not stop.usable:
        invalid.append(f"stopped early: {stop.reason}")
    if not good and not (stop and stop.usable and usable):
        invalid.append("no request succeeded")
    elif faults:
        invalid.append(f"{sum(faults.values())} of {len(outcomes)} requests failed")
    glued = ""
    if zero_gaps is not None and zero_gaps > MAX_ZERO_GAPS:
        glued = f"{zero_gaps:.0%} of the gaps between tokens are zero: chunks arrive glued together"
        invalid.append(glued)
    request_s = sum(e2e) / len(e2e) if e2e else width
    if lag is not None and lag > max(MAX_LAG_S, MAX_LAG_SHARE * request_s):
        invalid.append(f"the load client itself lagged {lag * 1000:.0f} ms (99th percentile): {ALLOW}")
    sent = cell.prompt_tokens * len(outcomes)
    share = cached / sent if cached is not None and sent else None
    # A cache with blocks of one token finds the first token or two of any prompt: there are only so many.
    if share is not None and share > max(MAX_CACHED, 2 / cell.prompt_tokens):
        invalid.append(f"{share:.0%} of the prompt tokens came from the server's prefix cache")
    if late:
        invalid.append(f"{late} requests were sent late: the request rate was not reached")
    return LoadResult(
        cell=cell,
        mode=mode,
        outcomes=tuple(outcomes),
        window_s=width,
        tokens_per_second=tokens / width if usable else None,
        requests_per_second=ended / width if good and width > 0 else None,
        ttft=spread(ttft),
        tpot=spread(tpot),
        itl=None if several else spread(itl),
        e2e=spread(e2e),
        zero_gaps=zero_gaps,
        cached=share,
        lag_p99_s=lag,
        client_cpu_s=client_cpu_s,
        seconds=seconds,
        faults=tuple(faults.most_common()),
        invalid=tuple(invalid),
        stopped=stop.reason if stop else "",
        notes=notes,
        glued=glued,
        edge_gap_s=_edge_gap(flowing, begin, end),
        drift=None if stop else _drift(flowing, begin, end, max(1.0, held)),
    )
