"""One server: started on a free port, with a log of its own, and gone without a trace at the end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ungate.errors import Refusal
from ungate.host.children import Child, reap
from ungate.launch import memory, ports
from ungate.launch.cause import Cause, find
from ungate.launch.engines import Engine
from ungate.launch.log import Log
from ungate.launch.segments import SUFFIX, Segments

__all__ = ["Server", "Stopped", "serve", "start"]

_GRACE_S = 10.0
_PORT_FREE_S = 5.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a server ended: exit code (negative: a signal), seconds it took, what had to be cleaned up.

    ``killed`` counts processes that outlived the polite end, ``leaked`` names shared-memory segments that
    were left behind and then removed, ``port_free`` says whether the port can be bound again, ``gpu_memory`` the
    bytes on each GPU that were not given back (None without a reading).
    """

    code: int | None
    seconds: float
    killed: int
    leaked: tuple[str, ...]
    port_free: bool
    gpu_memory: tuple[int, ...] | None = None


class Server:
    """A running server; use :func:`serve` or :func:`start` to get one, and :meth:`stop` to end it."""

    def __init__(
        self,
        child: Child,
        *,
        log: Path,
        engine: Engine,
        port: int,
        argv: Sequence[str],
        deadline_s: float,
        segments: Segments,
        used: tuple[int, ...],
    ) -> None:
        self._child = child
        self._stopped: Stopped | None = None
        self.engine = engine
        self.port = port
        self.argv = tuple(argv)
        self.url = f"http://127.0.0.1:{port}"
        self.log = Log(log)
        self.model = engine.model(argv)
        self.deadline_s = deadline_s
        self.segments = segments
        self._memory = used

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def marker(self) -> str:
        """The environment marker of every process of this server, for a clean-up after a crash of ungate."""
        return self._child.marker

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return self._child.seconds

    def pids(self) -> tuple[int, ...]:
        """The living processes of this server, workers that left the process group included."""
        return self._child.members()

    def code(self) -> int | None:
        """The exit code of the first process, or None while it runs."""
        return self._child.poll()

    def cause(self) -> Cause | None:
        """The first root cause in this start's log."""
        return find(self.log.text(), self.engine)

    def ended(self, code: int) -> str:
        """How the first process ended, in words: its exit code, or the signal and what usually sends it."""
        if code >= 0:
            return f"ended with exit code {code}"
        name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
        why = {signal.SIGKILL: ", as the kernel does when memory runs out", signal.SIGSEGV: ", a crash in native code"}
        return f"was killed by {name}" + next((words for number, words in why.items() if number == -code), "")

    def failed(self, what: str) -> Refusal:
        """The failure in words, with the first root cause of this start's log."""
        cause = self.cause()
        said = "its log is empty" if cause is None else f"the first cause in its log: {cause}"
        if cause is not None and cause.before:
            said += f"; before it: {cause.before[-1]}"
        return Refusal(f"The server {what}; {said}.", f"Read the whole log: less {self.log.path}")

    def stop(self, grace_s: float = _GRACE_S) -> Stopped:
        """End every process, remove what they left; a second call returns the first one's result.

        A second ctrl-C while this runs cuts the grace short; the clean-up itself is finished.
        """
        if self._stopped is None:
            try:
                self._stopped = self._end(grace_s)
            except KeyboardInterrupt:
                self._stopped = self._end(0.0)
                raise
        return self._stopped

    def _end(self, grace_s: float) -> Stopped:
        begun = time.monotonic()
        before = self.pids()
        self.segments.look(before)
        if self._child.poll() is None and grace_s > 0:
            # The first process alone, at first: told all at once, workers die under a server that still uses them.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child.pid, signal.SIGTERM)
            self._child.wait(grace_s)
        code = self._child.poll()
        killed = len(self.pids())
        ended = self._child.stop(min(grace_s, 2.0))
        reap(self.marker)
        leaked = self.segments.leaked()
        self.segments.remove(leaked)
        self.segments.forget()
        free = ports.bindable(self.port)
        while not free and time.monotonic() - begun < grace_s + _PORT_FREE_S:
            time.sleep(0.05)
            free = ports.bindable(self.port)
        seconds = time.monotonic() - begun
        return Stopped(ended if code is None else code, seconds, killed, leaked, free, memory.left(self._memory))


def start(
    argv: Sequence[str],
    *,
    engine: Engine,
    environment: Mapping[str, str] | None = None,
    port: int,
    folder: Path,
    deadline_s: float = 600.0,
    arguments: Sequence[str] = (),
    cwd: Path | None = None,
) -> Server:
    """Start a server on ``port`` and return at once; :func:`~ungate.launch.wait_ready` says when it can be measured.

    ``environment`` is laid over ungate's own, ``arguments`` are an arm's and go behind the command line.
    The log goes to the next free ``server-NNN.log`` in ``folder``. ``deadline_s`` counts for the whole way to
    readiness. Refusal when the port already answers: never measure somebody else's server.
    """
    if ports.answers(port) or not ports.bindable(port):
        raise Refusal(
            f"Port {port} is already in use by {ports.holder(port)}; "
            "a measurement there would be of that server and not of the one to be started.",
            f"Stop it, or pass another port: --port {ports.free_port()}",
        )
    placed = engine.place(argv, port, arguments)
    log = _next_log(folder)
    # What the arm sets wins over what the engine file sets, and that over what ungate was started with.
    full = {**os.environ, **engine.environment, **(environment or {})}
    # What there is before the start, so that what is left after the end can be told from it.
    segments, used = Segments(engine.segments, log.with_suffix(SUFFIX)), memory.used()
    child = Child.start(placed, log=log, env=full, cwd=cwd)
    return Server(
        child, log=log, engine=engine, port=port, argv=placed, deadline_s=deadline_s, segments=segments, used=used
    )


@contextmanager
def serve(
    argv: Sequence[str],
    *,
    engine: Engine,
    environment: Mapping[str, str] | None = None,
    port: int,
    folder: Path,
    deadline_s: float = 600.0,
    arguments: Sequence[str] = (),
    cwd: Path | None = None,
) -> Iterator[Server]:
    """:func:`start` for the length of a block; the server is stopped whatever happens in it, ctrl-C included."""
    server = start(
        argv,
        engine=engine,
        environment=environment,
        port=port,
        folder=folder,
        deadline_s=deadline_s,
        arguments=arguments,
        cwd=cwd,
    )
    try:
        yield server
    except KeyboardInterrupt:
        server.stop(2.0)
        raise
    finally:
        server.stop()


def _next_log(folder: Path) -> Path:
    """A name that no earlier start has used, so that no line of an older run can be read as one of this."""
    folder.mkdir(parents=True, exist_ok=True)
    used = [int(m[1]) for path in folder.iterdir() if (m := re.fullmatch(r"server-(\d+)\.log", path.name))]
    return folder / f"server-{max(used, default=0) + 1:03d}.log"
