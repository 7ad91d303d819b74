"""Signs that a server which sends no token is working all the same: slow is not hung.

Steps of the model that end are progress, however long each takes. Where the server tells none, the CPU time of the
processes that compute tells at least whether any of them works: ranks that all wait in a system call use none.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Mapping

from ungate.launch.log import Log
from ungate.launch.server import Server
from ungate.launch.tree import Worker, cpu_s

__all__ = ["Busiest", "Counters", "Signs"]

Counters = Callable[[], Mapping[str, float]]
"""Those of the engine's counters of progress that the server has now; empty when it does not answer."""

Busiest = Callable[[], float | None]
"""The utilisation of the busiest GPU in percent; None where there is none or it does not tell."""

_WORKING = 50.0  # percent of a GPU, far from the 0 of one at rest and the 100 of a kernel that computes or polls
_ASLEEP = 0.01  # of a core: below this a process does nothing but be woken by timers
_BUSY = 0.1  # of a core: an HTTP server that waits takes less; on a busy machine who spins gets little more


class Signs:
    """Looked at every second while no token comes; all times are ``time.monotonic`` seconds."""

    def __init__(self, server: Server, workers: tuple[Worker, ...], counters: Counters, gpu: Busiest) -> None:
        self._counters, self._gpu = counters, gpu
        self._utilisation: float | None = None
        self._last: Mapping[str, float] = {}
        self._log, self._steps = Log(server.log.path), re.compile(server.engine.steps) if server.engine.steps else None
        self._log.skip()
        self._ranks = [w for w in workers if server.engine.rank and re.search(server.engine.rank, f"{w.own} {w.name}")]
        self._pids = [worker.pid for worker in workers]
        self._cpu: deque[tuple[float, dict[int, float]]] = deque(maxlen=600)
        self.begun = time.monotonic()
        self.moved_at: float | None = None
        self.moved = ""

    def look(self) -> None:
        """Take every reading once; blocks as long as the server takes to tell its counters."""
        now = time.monotonic()
        told = self._counters()
        for name, value in told.items():
            if value > (before := self._last.get(name, value)):
                self.moved_at, self.moved = now, f"{name} grew from {before:.0f} to {value:.0f}"
        # A reading that failed is no reason to forget the one before it.
        self._last = {**self._last, **told}
        if self._steps and (lines := [line for line in self._log.lines() if self._steps.search(line)]):
            self.moved_at, self.moved = now, f"its log says: {lines[-1].strip()[:100]}"
        self._cpu.append((now, {pid: cpu_s([pid]) for pid in self._pids}))
        self._utilisation = self._gpu()

    def still_s(self, now: float) -> float:
        """Seconds since a step was last seen to end, or since the first look."""
        return now - (self.moved_at or self.begun)

    def idle(self, span_s: float) -> bool:
        """Whether nobody has worked for ``span_s``: no rank, or where ranks are not known, no process.

        One rank at rest says nothing: it may wait for another that computes, or all of them for their GPUs. False
        before the span is covered.
        """
        spent = self._spent(span_s)
        if not spent or (self._utilisation or 0.0) >= _WORKING:
            return False
        if self._ranks:
            return all(spent.get(rank.pid, 0.0) < _ASLEEP * span_s for rank in self._ranks)
        return sum(spent.values()) < _BUSY * span_s

    def busy(self, span_s: float) -> str:
        """In words what the processes and GPUs did over ``span_s``; empty when the span is not covered yet."""
        spent = self._spent(span_s)
        if not spent:
            return ""
        gpu = "" if self._utilisation is None else f" and the busiest GPU was at {self._utilisation:.0f} %"
        return f"its processes used {sum(spent.values()) / span_s:.1f} cores{gpu}"

    def unmoved(self) -> str:
        """What did not move, in words."""
        if not self._last:
            return "it tells no counter of finished steps"
        return ", ".join(f"{name} stays at {value:.0f}" for name, value in self._last.items())

    def _spent(self, span_s: float) -> dict[int, float]:
        """CPU seconds of each process over the last ``span_s``; empty before so much has been seen."""
        if not self._cpu or self._cpu[-1][0] - self._cpu[0][0] < 0.8 * span_s:
            return {}
        end, last = self._cpu[-1]
        start, first = next(row for row in self._cpu if row[0] >= end - span_s)
        scale = span_s / (end - start) if end > start else 0.0
        return {pid: (last[pid] - first.get(pid, last[pid])) * scale for pid in last}
