"""Liveness while a server is measured: its processes, and a one-token completion when no tokens flow.

Tokens of the load are the best sign of life, and a probe beside them would disturb what is
measured; so the probe is sent only after a time without any. A server that does not answer it in time is hung or
only slow, and a candidate that has collapsed is slow: what tells them apart are the signs of :class:`Signs`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

from ungate.launch.completion import Completion, one_token
from ungate.launch.server import Server
from ungate.launch.signs import Busiest, Counters, Signs
from ungate.launch.tree import Worker, compiling, workers

__all__ = ["Fault", "Watch"]

_TICK_S = 0.2
_LOOK_S = 1.0
_STOPPED_FOR_S = 2.0
_LONGEST_STEP_S = 60.0
_FOREVER_S = 86400.0


@dataclass(frozen=True, slots=True)
class Fault:
    """``kind`` is exit, worker, stopped or hang; ``what`` is a sentence; ``seconds`` since the watch began."""

    kind: str
    what: str
    seconds: float


def _untold() -> Mapping[str, float]:
    return {}


def _no_gpu() -> float | None:
    return None


class Watch:
    """Watches a ready server in a thread for the length of a block; ``fault`` is None while all is well.

    A dead worker is noticed within half a second, one stopped by a signal within three. Without tokens for
    ``quiet_s`` a probe is sent; it has waited ``patience_s`` in vain when a hang is declared, unless steps of the
    model end (``counters`` tells the engine's counters of progress; its log may): then the server is slow, as long as
    they do. Where none ends but some rank is busy, one step may take up to ``step_s``; ``gpu`` tells the utilisation
    of the busiest GPU in percent, since ranks that wait for theirs may use no CPU time at all.
    :meth:`progress` takes the load's token counter; ``slow`` is empty or tells why silence was taken for slowness.
    """

    def __init__(
        self,
        server: Server,
        *,
        quiet_s: float = 3.0,
        patience_s: float = 12.0,
        step_s: float = _LONGEST_STEP_S,
        counters: Counters = _untold,
        gpu: Busiest = _no_gpu,
    ) -> None:
        self._server, self._quiet_s, self._patience_s, self._step_s = server, quiet_s, patience_s, step_s
        self._counters, self._gpu = counters, gpu
        self._workers: tuple[Worker, ...] = ()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ungate-watch", daemon=True)
        self._begun = self._alive_at = time.monotonic()
        self._tokens = 0
        self._stopped_at: dict[int, float] = {}
        self._probe: _Probe | None = None
        self._silence_told = ("", "")
        self._answered_at = -math.inf
        self._anew = False
        self.fault: Fault | None = None
        self.slow = ""

    def progress(self, tokens: int) -> None:
        """Tell how many tokens have arrived so far; any change is a sign of life."""
        if tokens != self._tokens:
            self._tokens, self._alive_at = tokens, time.monotonic()
            self._silence_told = ("", "")

    @property
    def silence(self) -> tuple[str, str]:
        """Of the silence that lasts now: why the server is slow, or else busy; both empty while neither is known."""
        return self._silence_told

    def answers(self, timeout_s: float) -> bool:
        """Whether the server answers one more token within ``timeout_s``: asked when a silent load has been given up.

        A request that takes a step of up to ``step_s`` is awaited; False at once when a fault is declared meanwhile.
        """
        begun = time.monotonic()
        self._anew = True
        while self.fault is None and time.monotonic() - begun < timeout_s:
            if self._answered_at > begun and not self._anew:
                return True
            time.sleep(_TICK_S / 2)
        return False

    def __enter__(self) -> Watch:
        self._workers = workers(self._server.pids(), self._server.pid, self._server.engine)
        self._server.segments.look(self._server.pids())
        self._begun = self._alive_at = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(self._patience_s + 5.0)

    def _run(self) -> None:
        try:
            while not self._end.wait(_TICK_S) and self.fault is None:
                now = time.monotonic()
                self.fault = self._processes(now)
                if self._anew:
                    # What was asked during the load stands behind its requests, and has waited as long as they did.
                    self._close()
                    self._probe, self._anew = self._ask(), False
                elif self.fault is None and self._probe is not None:
                    self.fault = self._judge(self._probe, now)
                elif self.fault is None and now - self._alive_at > self._quiet_s:
                    self._probe = self._ask()
        finally:
            self._close()

    def _ask(self) -> _Probe:
        return _Probe(self._server, Signs(self._server, self._workers, self._counters, self._gpu))

    def _fault(self, kind: str, what: str) -> Fault:
        return Fault(kind, what, time.monotonic() - self._begun)

    def _processes(self, now: float) -> Fault | None:
        code = self._server.code()
        if code is not None:
            return self._fault("exit", f"The server {self._server.ended(code)}.")
        for worker in self._workers:
            state = worker.state()
            if state == "gone":
                return self._fault("worker", f"Process {worker.pid} of the server ({worker.name[:60]}) is gone.")
            if state == "alive":
                self._stopped_at.pop(worker.pid, None)
            elif now - self._stopped_at.setdefault(worker.pid, now) > _STOPPED_FOR_S:
                return self._fault("stopped", f"Process {worker.pid} of the server ({worker.name[:60]}) is stopped.")
        return None

    def _close(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self._probe = None
            self._silence_told = ("", "")

    def _judge(self, probe: _Probe, now: float) -> Fault | None:
        if self._alive_at > probe.begun:
            self._close()
            return None
        answer, waited = probe.answer, now - probe.begun
        if answer is not None:
            self._close()
            if answer.fault and not compiling(self._server.pids()):
                return self._fault("hang", f"The server makes no tokens: {answer.fault}.")
            # One rank may compile in the middle of serving while its peers wait; that ends by itself.
            self._alive_at = now
            if not answer.fault:
                self._answered_at = now
                self._silence_told = (f"a short request was answered in {waited:.0f} s", "")
                if waited > self._patience_s:
                    self.slow = f"one token took {waited:.0f} s"
            return None
        signs = probe.signs
        still = signs.still_s(now)
        if waited < self._patience_s or now - probe.judged_at < _LOOK_S:
            return None
        probe.judged_at = now
        if still < self._patience_s:
            self.slow = f"no token for {now - self._alive_at:.0f} s, but {signs.moved}"
            self._silence_told = (signs.moved, "")
            return None
        if compiling(self._server.pids()):
            self._close()
            self._alive_at = now
            return None
        return self._silence(signs, waited, still)

    def _silence(self, signs: Signs, waited: float, still: float) -> Fault | None:
        """No token and no step: at rest is hung at once, busy only when no step can take that long."""
        idle, busy = signs.idle(self._patience_s), signs.busy(self._patience_s)
        if not idle and still < self._step_s:
            self._silence_told = ("", busy)
            return None
        said = f"The server makes no tokens: no token for {waited:.0f} s, {signs.unmoved()}"
        if busy:
            said += f", {busy} meanwhile"
        return self._fault("hang", f"{said}: {'nobody works' if idle else 'it spins'}.")


class _Probe:
    """A one-token completion and the looks at the signs, each in a thread, so that the processes are watched."""

    def __init__(self, server: Server, signs: Signs) -> None:
        self.begun = self.judged_at = time.monotonic()
        self.answer: Completion | None = None
        self.signs = signs
        self._server = server
        self._end = threading.Event()
        threading.Thread(target=self._ask, name="ungate-probe", daemon=True).start()
        threading.Thread(target=self._look, name="ungate-signs", daemon=True).start()

    def close(self) -> None:
        self._end.set()

    def _ask(self) -> None:
        answer = one_token(self._server.url, self._server.model, _FOREVER_S, given_up=self._end.is_set)
        if not self._end.is_set():
            self.answer = answer

    def _look(self) -> None:
        self.signs.look()
        while not self._end.wait(_LOOK_S):
            self.signs.look()
