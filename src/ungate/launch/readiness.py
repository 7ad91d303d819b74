"""Readiness by forward progress: the process lives, owns the port, and makes tokens of the shape to be measured.

A 200 of a health endpoint is not readiness: it comes before warm-up, and it stays when a worker has
hung. What counts are completions like those of the measurement, sent in rounds until their time settles.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TypeVar

import aiohttp
import numpy as np

from ungate.host.progress import Report, silent
from ungate.launch import ports
from ungate.launch.completion import Completion, complete, model_name
from ungate.launch.server import Server
from ungate.launch.signs import Counters
from ungate.launch.tree import compiling, cpu_s
from ungate.model import Cell

__all__ = ["SETTLED", "Readiness", "wait_ready"]

SETTLED = 0.25
"""Two successive rounds whose times differ by less than this share have settled: twice the run-to-run noise of a
quiet machine, while a first round with compilation takes two to a hundred times as long."""

T = TypeVar("T")

_TICK_S = 0.1
_CPU_STEP_S = 0.05
_MAX_ROUNDS = 12
_ENOUGH_S = 30.0  # rounds after which a slow server with steady progress is taken as it is
_SPAN_S = 10.0  # two of these with the same number of tokens are a steady speed
_FEWEST = 8  # tokens in a span, below which the number says little
_QUIET_S = 5.0  # without a token, after which the server is asked for its counters
_PROMPT_RANGE = (32, 250)


@dataclass(frozen=True, slots=True)
class Readiness:
    """Seconds since the start at which the port was ours and the first token came, and the rounds until it settled.

    ``rounds`` are the seconds of each round of the cell's shape; of one that was so slow that it was cut short, what it
    would have taken. ``settled`` False: tokens come, but their time had not become steady when patience ended.
    ``phases`` are the engine's own, with the seconds since the start.
    """

    listening_s: float
    first_token_s: float
    seconds: float
    rounds: tuple[float, ...]
    settled: bool
    phases: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()


def wait_ready(
    server: Server,
    cell: Cell,
    *,
    deadline_s: float | None = None,
    stall_s: float = 180.0,
    report: Report = silent,
    counters: Counters = dict,
) -> Readiness:
    """Wait until ``server`` can be measured at ``cell``.

    Refusal at once when the process ends, a stranger owns the port, or after ``stall_s`` without any sign of
    progress (log, CPU time, a compiler at work, tokens, ``counters`` of finished steps), and at the deadline
    (default: the server's own).
    """
    return _Wait(server, cell, server.deadline_s if deadline_s is None else deadline_s, stall_s, report, counters).go()


class _Wait:
    def __init__(
        self, server: Server, cell: Cell, deadline_s: float, stall_s: float, report: Report, counters: Counters
    ) -> None:
        self._server, self._cell, self._deadline_s, self._stall_s = server, cell, deadline_s, stall_s
        self._report, self._counters = report, counters
        self._phases: list[tuple[str, float]] = []
        self._fatal = [re.compile(pattern) for pattern in server.engine.fatal]
        self._seen = (0, 0.0)
        self._progress_at = time.monotonic()
        self._looked_at = 0.0
        self._pids: tuple[int, ...] = (server.pid,)
        self._doomed_at: float | None = None
        self._tokens = 0
        self._arrivals: list[float] = []
        self._steps: dict[str, float] = {}
        self._cut = False
        self._spoken = False
        self._announced = not server.engine.ready

    def go(self) -> Readiness:
        server = self._server
        self._until(self._listening, "did not open its port")
        listening = server.seconds
        self._report("waiting for the first token")
        self._until(self._named, "told no model name")
        self._until(self._first_token, "made no token")
        first, self._spoken = server.seconds, True
        rounds = asyncio.run(self._rounds())
        server.segments.look(server.pids())
        settled = self._cut or (len(rounds) > 1 and _close(rounds[-2], rounds[-1]))
        notes = () if settled else (f"after {len(rounds)} rounds the time of a round still changes",)
        if self._cut:
            notes = (f"a round would take {rounds[-1]:.0f} s; it was cut short once its speed was steady",)
        return Readiness(listening, first, server.seconds, tuple(rounds), settled, tuple(self._phases), notes)

    def _until(self, done: Callable[[], bool], failure: str) -> None:
        while not done():
            self._check(failure)
            time.sleep(_TICK_S)

    def _check(self, failure: str) -> None:
        """The process first: a crash is told at once and not as a time-out."""
        server = self._server
        code = server.code()
        for line in server.log.lines():
            if (name := server.engine.phase(line)) and name not in dict(self._phases):
                self._phases.append((name, server.seconds))
                self._report(name)
            self._announced = self._announced or any(re.search(pattern, line) for pattern in server.engine.ready)
            if any(pattern.search(line) for pattern in self._fatal):
                self._doomed_at = self._doomed_at or time.monotonic()
        if code is not None:
            raise server.failed(f"{server.ended(code)} after {server.seconds:.0f} s, before it was ready")
        now = time.monotonic()
        if now - self._looked_at > 1.0:
            self._look(now)
        if self._doomed_at and now - self._doomed_at > 30.0 and now - self._progress_at > 5.0:
            raise server.failed("announced a fatal error and then stood still")
        if server.seconds > self._deadline_s:
            raise server.failed(f"{failure} within {self._deadline_s:.0f} s")
        if now - self._progress_at > self._stall_s:
            raise server.failed(f"{failure} and showed no progress for {self._stall_s:.0f} s")

    def _look(self, now: float) -> None:
        self._looked_at = now
        self._pids = self._server.pids()
        self._server.segments.look(self._pids)
        size, used = self._server.log.size + self._tokens, cpu_s(self._pids)
        # Once tokens have come, CPU time is no progress any more: a worker that spins on a lost peer has plenty.
        worked = not self._spoken and abs(used - self._seen[1]) > _CPU_STEP_S
        if size > self._seen[0] or worked or self._stepped(now) or compiling(self._pids):
            self._seen, self._progress_at = (size, used), now

    def _stepped(self, now: float) -> bool:
        """Whether steps of the model have ended since this was asked last; only of a server that has gone quiet."""
        if not self._spoken or (self._arrivals and now - self._arrivals[-1] < _QUIET_S):
            return False
        before, self._steps = self._steps, {**self._steps, **self._counters()}
        return any(value > before.get(name, value) for name, value in self._steps.items())

    def _listening(self) -> bool:
        server = self._server
        if not ports.answers(server.port):
            return False
        if server.port in ports.listeners(server.pids()):
            return True
        if server.code() is None:
            raise server.failed(
                f"does not own port {server.port}: {ports.holder(server.port)} listens there, "
                "and a measurement would be of that one"
            )
        return False

    def _named(self) -> bool:
        if not self._server.model:
            self._server.model = model_name(self._server.url)
        return bool(self._server.model)

    def _first_token(self) -> bool:
        """Without a deadline of its own: a slow first compile is not cut while there is progress."""
        answer = asyncio.run(self._watched(self._one()))
        return answer is not None and answer.fault == ""

    async def _one(self) -> Completion:
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            return await complete(session, self._server.url, self._server.model, (65, 66, 67, 68), 1)

    async def _rounds(self) -> list[float]:
        rounds: list[float] = []
        begun = time.monotonic()
        while len(rounds) < _MAX_ROUNDS:
            self._report(f"settling, round {len(rounds) + 1}")
            self._arrivals, started = [], time.monotonic()
            took = await self._watched(self._round(len(rounds)), self._steady)
            if took is None:
                expected = self._cell.concurrency * self._cell.output_tokens
                elapsed = time.monotonic() - started
                rounds.append(elapsed * max(1.0, expected / len(self._arrivals)))
                self._cut = True
                break
            rounds.append(took)
            patient = time.monotonic() - begun <= _ENOUGH_S
            # An engine that warms itself up beside our rounds is not ready, however steady they are.
            settled = len(rounds) > 1 and _close(rounds[-2], rounds[-1]) and (self._announced or not patient)
            if settled or (len(rounds) > 2 and not patient):
                break
        return rounds

    async def _round(self, number: int) -> float:
        """One set of slots of the cell's shape at once; its seconds. A failed request is a failed start."""
        cell, server = self._cell, self._server
        prompts = np.random.default_rng(number).integers(*_PROMPT_RANGE, size=(cell.concurrency, cell.prompt_tokens))
        timeout = aiohttp.ClientTimeout(total=None)
        begun = time.monotonic()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
            answers = await asyncio.gather(
                *(
                    complete(session, server.url, server.model, row, cell.output_tokens, on_token=self._count)
                    for row in prompts.tolist()
                )
            )
        if faults := [answer.fault for answer in answers if answer.fault]:
            raise server.failed(f"failed {len(faults)} of {len(answers)} requests of the shape {cell}: {faults[0]}")
        return time.monotonic() - begun

    def _count(self) -> None:
        self._tokens += 1
        self._arrivals.append(time.monotonic())

    def _steady(self) -> bool:
        """Whether a round that takes long has shown its speed: as many tokens in the last span as in the one before.

        Where tokens come so seldom that a span holds few, the spans become longer, and may differ by one step's tokens.
        """
        now, arrivals = time.monotonic(), self._arrivals
        if not arrivals or (lasted := now - arrivals[0]) < _ENOUGH_S or not self._announced:
            return False
        span = max(_SPAN_S, lasted / 3)
        late = sum(now - span < moment for moment in arrivals)
        early = sum(now - 2 * span < moment <= now - span for moment in arrivals)
        slack = SETTLED * early
        if min(late, early) < _FEWEST:
            if not early or lasted < 2 * _ENOUGH_S:
                return False
            slack = max(slack, float(self._cell.concurrency))
        return late > 0 and abs(late - early) <= slack

    async def _watched(self, work: Coroutine[None, None, T], enough: Callable[[], bool] = lambda: False) -> T | None:
        """The result of ``work``; None when ``enough`` said that it need not be awaited."""
        task = asyncio.create_task(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_TICK_S)
                self._check("finished no request")
                if not task.done() and enough():
                    return None
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _close(earlier: float, later: float) -> bool:
    return abs(later - earlier) <= max(SETTLED * earlier, 0.02)
