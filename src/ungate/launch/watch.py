"""Liveness while a server is measured: its processes, and a one-token completion when no tokens flow.

Tokens of the load are the best sign of life, and a probe beside them would disturb what is
measured; so the probe is sent only after a time without any.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType

from ungate.launch.completion import Completion, one_token
from ungate.launch.server import Server
from ungate.launch.tree import Worker, compiling, workers

__all__ = ["Fault", "Watch"]

_TICK_S = 0.2
_STOPPED_FOR_S = 2.0


@dataclass(frozen=True, slots=True)
class Fault:
    """``kind`` is exit, worker, stopped or hang; ``what`` is a sentence; ``seconds`` since the watch began."""

    kind: str
    what: str
    seconds: float


class Watch:
    """Watches a ready server in a thread for the length of a block; ``fault`` is None while all is well.

    A dead worker is noticed within half a second, one stopped by a signal within three, a hang within
    ``quiet_s + patience_s``. :meth:`progress` takes the load's token counter.
    """

    def __init__(self, server: Server, *, quiet_s: float = 3.0, patience_s: float = 12.0) -> None:
        self._server, self._quiet_s, self._patience_s = server, quiet_s, patience_s
        self._workers: tuple[Worker, ...] = ()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ungate-watch", daemon=True)
        self._begun = self._alive_at = time.monotonic()
        self._tokens = 0
        self._stopped_at: dict[int, float] = {}
        self.fault: Fault | None = None

    def progress(self, tokens: int) -> None:
        """Tell how many tokens have arrived so far; any change is a sign of life."""
        if tokens != self._tokens:
            self._tokens, self._alive_at = tokens, time.monotonic()

    def __enter__(self) -> Watch:
        self._workers = workers(self._server.pids(), self._server.pid, self._server.engine)
        self._begun = self._alive_at = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(self._patience_s + 5.0)

    def _run(self) -> None:
        probe: _Probe | None = None
        while not self._end.wait(_TICK_S) and self.fault is None:
            now = time.monotonic()
            self.fault = self._processes(now)
            if self.fault is not None:
                return
            if probe is not None:
                probe, self.fault = self._judge(probe, now)
            elif now - self._alive_at > self._quiet_s:
                probe = _Probe(self._server, self._patience_s)

    def _fault(self, kind: str, what: str) -> Fault:
        return Fault(kind, what, time.monotonic() - self._begun)

    def _processes(self, now: float) -> Fault | None:
        code = self._server.code()
        if code is not None:
            return self._fault("exit", f"The server ended with exit code {code}.")
        for worker in self._workers:
            state = worker.state()
            if state == "gone":
                return self._fault("worker", f"Process {worker.pid} of the server ({worker.name[:60]}) is gone.")
            if state == "alive":
                self._stopped_at.pop(worker.pid, None)
            elif now - self._stopped_at.setdefault(worker.pid, now) > _STOPPED_FOR_S:
                return self._fault("stopped", f"Process {worker.pid} of the server ({worker.name[:60]}) is stopped.")
        return None

    def _judge(self, probe: _Probe, now: float) -> tuple[_Probe | None, Fault | None]:
        if self._alive_at > probe.begun:
            return None, None
        answer = probe.answer
        if answer is None:
            return probe, None
        if not answer.fault:
            self._alive_at = now
            return None, None
        if compiling(self._server.pids()):
            # One rank may compile in the middle of serving while its peers wait; that ends by itself.
            self._alive_at = now
            return None, None
        return None, self._fault("hang", f"The server makes no tokens: {answer.fault}.")


class _Probe:
    """A one-token completion in a thread of its own, so that the processes are watched meanwhile."""

    def __init__(self, server: Server, patience_s: float) -> None:
        self.begun = time.monotonic()
        self.answer: Completion | None = None
        self._server, self._patience_s = server, patience_s
        threading.Thread(target=self._ask, name="ungate-probe", daemon=True).start()

    def _ask(self) -> None:
        self.answer = one_token(self._server.url, self._server.model, self._patience_s)
