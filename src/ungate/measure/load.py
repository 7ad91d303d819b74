"""The load client: sends requests as planned, keeps every token's arrival, judges every answer.

Built on aiohttp: one request costs about 5 ms of CPU at 32 tokens, so that a client that shares its cores with
the server does not measure itself (the reasons and the comparison with other clients are in the documentation).
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from itertools import count

from ungate.errors import Refusal
from ungate.measure import counters
from ungate.measure.arrivals import ClosedLoop, FixedRate, PoissonRate
from ungate.measure.priority import first_in_line
from ungate.measure.prompts import TOKEN_RANGE, prompt, stream_seed
from ungate.measure.result import LoadResult, Stop, summarise
from ungate.measure.stream import Outcome, Request, complete, session
from ungate.model import Cell

__all__ = ["OnProgress", "Progress", "Stop", "run"]

_TICK_S = 0.2  # how often progress is reported and a stop is asked for
_LAG_TICK_S = 0.02
_LATE_S = 0.1  # a request of a rate that is sent this much after it was due counts as late


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a load run is.

    ``seconds``, ``completed`` and ``failed`` are of this phase; ``tokens`` never goes back. It counts for each chunk
    as many tokens as those of the ended requests held. ``tokens_per_second`` covers the last two seconds and is None
    before the phase's first token.
    """

    phase: str  # "warm-up" or "measure"
    seconds: float
    completed: int
    failed: int
    tokens: int
    tokens_per_second: float | None


OnProgress = Callable[[Progress], Stop | None]
"""Called about five times a second; what it returns ends the run, or, where it is usable, the warm-up only."""


def run(
    url: str,
    model: str,
    cell: Cell,
    *,
    seconds: float | None = None,
    requests: int | None = None,
    rate: float | None = None,
    arrivals: str = "poisson",
    warmup: int | None = None,
    ramp_s: float | None = None,
    seed: int = 0,
    stall_s: float = 60.0,
    deadline_s: float = 600.0,
    token_range: tuple[int, int] = TOKEN_RANGE,
    cache_hits: Sequence[str] = (),
    metrics: str = "/metrics",
    on_progress: OnProgress | None = None,
) -> LoadResult:
    """Measure ``cell`` on the server at ``url`` (http://host:port) and return every figure with its raw outcomes.

    Closed loop unless ``rate`` (requests a second, arriving ``poisson`` or ``fixed``) is given; then latencies count
    from the moment a request was due. ``seconds`` measures for a time, ``requests`` a number; one of the two is
    needed. Before it, ``warmup`` requests of the same shape (default: one a slot) are sent and not counted, except
    that a failed one ends the run. ``ramp_s`` defaults to one eightieth of a second a slot. With the same ``seed``
    two servers get the same prompts. ``cache_hits`` are the counters of prompt tokens found in a prefix cache, at
    ``metrics``: a cell whose prompts were found there is invalid.
    """
    if (seconds is None) == (requests is None):
        raise Refusal(
            "A load run needs either a number of seconds or a number of requests, not both.", "Run: ungate run --help"
        )
    if rate is not None and (rate <= 0 or arrivals not in {"poisson", "fixed"}):
        raise Refusal(
            f"A request rate of {rate} with {arrivals} arrivals cannot be sent.",
            "Give a rate above 0 and poisson or fixed arrivals: ungate run --help",
        )
    plan = _Plan(
        endpoint=url.rstrip("/") + "/v1/completions",
        model=model,
        cell=cell,
        seconds=seconds,
        requests=requests,
        rate=None if rate is None else (PoissonRate(rate) if arrivals == "poisson" else FixedRate(rate)),
        warmup=cell.concurrency if warmup is None else warmup,
        ramp_s=cell.concurrency / 80 if ramp_s is None else ramp_s,
        seed=seed,
        stall_s=stall_s,
        deadline_s=deadline_s,
        token_range=token_range,
        cache_hits=tuple(cache_hits),
        metrics=url.rstrip("/") + metrics,
    )
    with first_in_line():
        return asyncio.run(_Run(plan, on_progress or (lambda progress: None)).go())


@dataclass(frozen=True, slots=True)
class _Plan:
    endpoint: str
    model: str
    cell: Cell
    seconds: float | None
    requests: int | None
    rate: PoissonRate | FixedRate | None
    warmup: int
    ramp_s: float
    seed: int
    stall_s: float
    deadline_s: float
    token_range: tuple[int, int]
    cache_hits: tuple[str, ...]
    metrics: str

    def request(self, purpose: str, index: int) -> Request:
        seed = stream_seed(self.cell, purpose, self.seed)
        tokens = prompt(seed, index, self.cell.prompt_tokens, self.token_range)
        return Request(index, self.model, tokens, self.cell.output_tokens, self.stall_s)


class _Run:
    """One run's moving parts; lives as long as :func:`run`."""

    def __init__(self, plan: _Plan, on_progress: OnProgress) -> None:
        self._plan = plan
        self._on_progress = on_progress
        self._outcomes: list[Outcome] = []
        self._phase = "warm-up"
        self._tokens = 0.0
        self._per_event, self._counted = 1.0, (0, 0)
        self._stop: Stop | None = None
        self._lags: list[float] = []
        self._late = 0
        self._cached: float | None = None

    async def go(self) -> LoadResult:
        plan, begun, cpu = self._plan, time.perf_counter(), _cpu_s()
        notes: tuple[str, ...] = ()
        async with session() as self._session:
            await self._supervised(self._warm_up())
            cold = [outcome for outcome in self._outcomes if not outcome.ok]
            cold = [outcome for outcome in cold if not (outcome.cut and self._stop)]
            if cold and not (self._stop and not self._stop.usable):
                self._stop = Stop(f"the warm-up failed: {cold[0].fault}")
            if self._stop and self._stop.usable:
                notes, self._stop = (f"{self._stop.reason}; it was cut short",), None
            if self._stop:
                now = time.perf_counter()
                window = (begun, now)
            else:
                self._outcomes, self._lags, self._phase = [], [], "measure"
                hits = await self._cache_hits()
                self._begin = time.perf_counter()
                cpu = _cpu_s()
                await self._supervised(self._closed_loop() if plan.rate is None else self._rate(plan.rate))
                window = self._window()
                self._cached = _growth(hits, await self._cache_hits())
        return summarise(
            plan.cell,
            "closed" if plan.rate is None else type(plan.rate).__name__,
            sorted(self._outcomes, key=lambda outcome: outcome.index),
            window,
            lags=self._lags,
            client_cpu_s=_cpu_s() - cpu,
            seconds=time.perf_counter() - begun,
            stop=self._stop,
            late=self._late,
            cached=self._cached,
            notes=notes,
        )

    async def _cache_hits(self) -> float | None:
        names = self._plan.cache_hits
        return counters.total(await asyncio.to_thread(counters.read, self._plan.metrics, ""), names) if names else None

    def _window(self) -> tuple[float, float]:
        ends = max((outcome.end for outcome in self._outcomes), default=time.perf_counter())
        if self._plan.seconds is None or self._stop:
            return self._begin, ends
        ramp = self._plan.ramp_s if self._plan.rate is None else 0.0
        return self._begin + ramp, min(ends, self._begin + ramp + self._plan.seconds)

    async def _supervised(self, work: Coroutine[None, None, None]) -> None:
        """Run one phase; report progress, and end it when it is told to stop or runs out of time."""
        task = asyncio.create_task(work)
        lag = asyncio.create_task(self._watch_lag())
        begun, before = time.perf_counter(), self._tokens
        recent: list[tuple[float, float]] = [(begun, before)]
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_TICK_S)
                now = time.perf_counter()
                recent = [(moment, tokens) for moment, tokens in recent if now - moment <= 2.0] or recent[-1:]
                since, then = recent[0]
                speed = (self._tokens - then) / (now - since) if self._tokens > before and now > since else None
                recent.append((now, self._tokens))
                done = sum(outcome.ok for outcome in self._outcomes)
                failed = len(self._outcomes) - done
                stop = self._on_progress(Progress(self._phase, now - begun, done, failed, int(self._tokens), speed))
                if not stop and now - begun > self._plan.deadline_s and not task.done():
                    stop = Stop(f"the {self._phase} did not end within {self._plan.deadline_s:g} s")
                if stop:
                    self._stop = stop
                    break
            if task.done():
                await task
        finally:
            task.cancel()
            lag.cancel()
            await asyncio.gather(task, lag, return_exceptions=True)

    async def _watch_lag(self) -> None:
        while True:
            asked = time.perf_counter() + _LAG_TICK_S
            await asyncio.sleep(_LAG_TICK_S)
            self._lags.append(max(0.0, time.perf_counter() - asked))

    def _count(self, events: int) -> None:
        self._tokens += events * self._per_event

    def _keep(self, outcome: Outcome) -> None:
        """The usage of a finished request tells how many tokens an event holds: a chunk may carry several."""
        self._outcomes.append(outcome)
        if outcome.ok and outcome.tokens and outcome.times:
            self._counted = (self._counted[0] + outcome.tokens, self._counted[1] + len(outcome.times))
            self._per_event = max(1.0, self._counted[0] / self._counted[1])

    async def _one(self, purpose: str, index: int, due: float | None = None) -> Outcome:
        request = self._plan.request(purpose, index)
        return await complete(
            self._session, self._plan.endpoint, request, keep=self._keep, due=due, on_token=self._count
        )

    async def _warm_up(self) -> None:
        """One burst after another of at most a full set of slots, so that every batch size of the cell is met."""
        indices = iter(range(self._plan.warmup))

        async def slot(delay: float) -> None:
            await asyncio.sleep(delay)
            for index in indices:
                if not (await self._one("warm-up", index)).ok:
                    return

        slots = min(self._plan.cell.concurrency, self._plan.warmup)
        await asyncio.gather(*(slot(delay) for delay in ClosedLoop(slots, self._plan.ramp_s).starts()) if slots else ())

    async def _closed_loop(self) -> None:
        plan = self._plan
        indices = count() if plan.requests is None else iter(range(plan.requests))
        stop_at = None if plan.seconds is None else self._begin + plan.ramp_s + plan.seconds

        async def slot(delay: float) -> None:
            await asyncio.sleep(delay)
            for index in indices:
                if stop_at is not None and time.perf_counter() >= stop_at:
                    return
                if not (await self._one("measure", index)).ok:
                    # A dead server refuses at once: without a pause it would be asked thousands of times.
                    await asyncio.sleep(0.1)

        await asyncio.gather(*(slot(delay) for delay in ClosedLoop(plan.cell.concurrency, plan.ramp_s).starts()))

    async def _rate(self, rate: PoissonRate | FixedRate) -> None:
        plan, tasks = self._plan, []
        for index, offset in enumerate(rate.due(stream_seed(plan.cell, "arrivals", plan.seed))):
            over = index >= plan.requests if plan.requests is not None else offset > (plan.seconds or 0.0)
            if over:
                break
            due = self._begin + offset
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self._late += time.perf_counter() - due > _LATE_S
            tasks.append(asyncio.create_task(self._one("measure", index, due)))
        await asyncio.gather(*tasks)


def _growth(before: float | None, after: float | None) -> float | None:
    # A counter with labels is not there before it first counts.
    return None if after is None else after - (before or 0.0)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
