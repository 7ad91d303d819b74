"""Supervised children: each has its own session, an environment marker, a log and a deadline.

A child's own children are found again in four ways, because each alone has a hole: by process group and
session (a worker may call ``setsid``), by the marker in their environment (``setproctitle``, which serving
engines use, overwrites it), by descent (an orphan loses its parent: ungate therefore asks the
kernel to be the one that inherits orphans), and by having been seen earlier as a descendant.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

import psutil

from ungate.errors import Refusal

__all__ = ["MARKER", "Child", "Outcome", "reap", "run", "tail"]

MARKER = "UNGATE_CHILD"
"""The environment variable that every child carries: markers of nested children, joined by colons."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_AFTER_KILL_S = 10.0
_LOOK_EVERY_S = 2.0
_TAIL_BYTES = 64 * 1024
_LEADERS: set[int] = set()  # whose exit status subprocess collects itself


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a child ended. ``code`` is negative for a signal; ``output`` is the last 64 KB of its log."""

    code: int
    seconds: float
    timed_out: bool
    log: Path | None
    output: str


def tail(log: Path, limit: int = _TAIL_BYTES) -> str:
    """The last ``limit`` bytes of a log as text, from a whole line on."""
    with log.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - limit))
        content = stream.read()
    if size > limit:
        content = content.partition(b"\n")[2]
    return content.decode("utf-8", "replace")


def _prctl() -> Callable[[int, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        call = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return lambda option, value: int(call(option, value, 0, 0, 0))


def _last_words() -> Callable[[], None] | None:
    """What the child does before exec: ask to be terminated when ungate dies.

    Only from the main thread: the kernel sends the signal when the *thread* that forked ends, and a
    worker thread ends long before its child should.
    """
    prctl = _prctl()
    if prctl is None or threading.current_thread() is not threading.main_thread():
        return None
    parent = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return ask


def _inherit_orphans() -> None:
    if prctl := _prctl():
        prctl(_PR_SET_CHILD_SUBREAPER, 1)


class Child:
    """One running process and everything it starts; as a context manager it is stopped at the end of the block."""

    def __init__(self, process: subprocess.Popen[bytes], marker: str, log: Path | None) -> None:
        self._process = process
        self._started = time.monotonic()
        self._looked = 0.0
        self._leader = psutil.Process(process.pid)
        _LEADERS.add(process.pid)
        self._seen: set[psutil.Process] = set()
        self.marker = marker
        self.log = log

    @classmethod
    def start(
        cls,
        argv: Sequence[str | Path],
        *,
        log: Path | None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdout: Path | None = None,
    ) -> Child:
        """Start ``argv`` (never a shell) with its output in a fresh ``log``.

        ``env`` is the whole environment (None: ungate's own); the marker is added to it. With ``stdout``
        standard output goes to that file and only standard error to the log. Refusal where it cannot be started.
        """
        marker = uuid.uuid4().hex
        environment = dict(os.environ if env is None else env)
        environment[MARKER] = ":".join(filter(None, (os.environ.get(MARKER, ""), marker)))
        _inherit_orphans()
        with contextlib.ExitStack() as stack:
            errors: IO[bytes] | int = stack.enter_context(log.open("wb")) if log else subprocess.DEVNULL
            output: IO[bytes] | int = stack.enter_context(stdout.open("wb")) if stdout else errors
            stack.enter_context(warnings.catch_warnings())
            # Since Python 3.12 a fork beside threads warns; between fork and exec this child only calls prctl.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                process = subprocess.Popen(
                    [os.fspath(word) for word in argv],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    env=environment,
                    cwd=cwd,
                    start_new_session=True,
                    preexec_fn=_last_words(),  # noqa: PLW1509 - one prctl call, only from the main thread
                )
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                raise Refusal(
                    f"The program '{argv[0]}' could not be started: {reason}.",
                    f"Check that it exists and runs: {argv[0]} --version",
                ) from error
        return cls(process, marker, log)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return time.monotonic() - self._started

    def poll(self) -> int | None:
        """The exit code (negative: a signal), or None while the process runs."""
        code = self._process.poll()
        if code is None and time.monotonic() - self._looked > _LOOK_EVERY_S:
            self._looked = time.monotonic()
            self._seen |= _family(self._leader)
            _bury(self._seen)
        return code

    def wait(self, timeout_s: float) -> int | None:
        """Wait at most ``timeout_s`` for the end; None when it still runs then."""
        end = time.monotonic() + timeout_s
        while True:
            if (code := self.poll()) is not None:
                return code
            left = end - time.monotonic()
            if left <= 0:
                return None
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(min(left, _LOOK_EVERY_S))

    def members(self) -> tuple[int, ...]:
        """The living processes that belong to this child, itself included."""
        return tuple(sorted(process.pid for process in self._members()))

    def _members(self) -> set[psutil.Process]:
        return {p for p in self._seen | _family(self._leader) | _carriers(self.marker) if _alive(p)}

    def stop(self, grace_s: float = 10.0) -> int:
        """End it and all it started: SIGTERM, after ``grace_s`` SIGKILL. Returns the exit code.

        Refusal when a process outlives SIGKILL (stuck in a driver call).
        """
        members = self._members()
        self._seen |= members
        if members and grace_s > 0:
            _signal(members, signal.SIGTERM)
            end = time.monotonic() + grace_s
            while time.monotonic() < end and any(map(_alive, members)):
                self._process.poll()
                time.sleep(0.02)
        if members:
            self._seen |= _kill(self._members)
        code = self._process.wait(_AFTER_KILL_S)
        _LEADERS.discard(self.pid)
        _bury(self._seen)
        return code

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(0.0 if kind is not None and issubclass(kind, KeyboardInterrupt) else 10.0)


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _family(leader: psutil.Process) -> set[psutil.Process]:
    """The leader, its descendants and the members of its session."""
    found: set[psutil.Process] = set()
    with contextlib.suppress(psutil.Error):
        if leader.is_running():
            found.update((leader, *leader.children(recursive=True)))
        elif psutil.pid_exists(leader.pid):
            return found  # the number belongs to a stranger by now, and so does a session of that number
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(pid) == leader.pid:
                found.add(psutil.Process(pid))
    return found


def _carriers(marker: str) -> set[psutil.Process]:
    """Every process whose environment carries the marker, except ungate itself."""
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and marker in process.environ().get(MARKER, "").split(":"):
                found.add(process)
    return found


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def _bury(processes: Iterable[psutil.Process]) -> None:
    """Collect the exit status of orphans that the kernel gave to ungate, so that no zombie stays."""
    for process in processes:
        if process.pid not in _LEADERS:
            with contextlib.suppress(OSError):
                os.waitpid(process.pid, os.WNOHANG)


def _kill(living: Callable[[], set[psutil.Process]]) -> set[psutil.Process]:
    """SIGKILL until nothing is left, looking again each time because a dying parent may still fork."""
    killed: set[psutil.Process] = set()
    end = time.monotonic() + _AFTER_KILL_S
    while members := living():
        _signal(members, signal.SIGKILL)
        killed |= members
        time.sleep(0.02)
        if time.monotonic() > end:
            pids = ",".join(str(process.pid) for process in members)
            raise Refusal(
                f"Process {pids} did not end {_AFTER_KILL_S:.0f} s after SIGKILL; most likely it is stuck in a driver.",
                f"Look at it with: ps -o pid,stat,wchan:32,cmd -p {pids}",
            )
    return killed


def reap(marker: str) -> int:
    """Kill every process that still carries the marker and wait until it is gone; the number of processes killed.

    Works without the :class:`Child` that started them, for example after a crash with the marker from the ledger.
    """
    killed = _kill(lambda: {process for process in _carriers(marker) if _alive(process)})
    _bury(killed)
    return len(killed)


def run(
    argv: Sequence[str | Path],
    *,
    deadline_s: float,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdout: Path | None = None,
    grace_s: float = 2.0,
) -> Outcome:
    """Run a program to its end or to the deadline; nothing it started is left afterwards, whatever happens.

    A deadline is no error here: ``timed_out`` says so. Without ``log`` the output is kept only as ``Outcome.output``.
    """
    with contextlib.ExitStack() as stack:
        if log is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ungate-"))
            written = Path(folder) / "log"
        else:
            written = log
        child = Child.start(argv, log=written, env=env, cwd=cwd, stdout=stdout)
        try:
            code = child.wait(deadline_s)
            seconds = child.seconds
        except BaseException:
            child.stop(0.0)
            raise
        ended = child.stop(grace_s if code is None else 0.0)
        return Outcome(ended if code is None else code, seconds, code is None, log, tail(written))
