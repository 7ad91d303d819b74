"""The processes of a server: CPU time they have used, which are needed, which are dead or stopped."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

import psutil

from ungate.launch.engines import Engine

__all__ = ["Worker", "compiling", "cpu_s", "workers"]

_COMPILERS = frozenset(
    {"nvcc", "cicc", "ptxas", "ninja", "g++", "gcc", "c++", "cc1plus", "cc1", "ld", "clang", "clang++"}
)


class Worker:
    """A process without which the server is dead. ``name`` is its command line, ``own`` what it calls itself."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self.pid = process.pid
        self.name = _title(process)
        self.own = ""
        with contextlib.suppress(psutil.Error):
            self.own = process.name()

    def state(self) -> str:
        """``alive``, ``gone`` (ended, or a zombie that its parent does not notice) or ``stopped`` (by a signal)."""
        try:
            if not self._process.is_running():
                return "gone"
            status = self._process.status()
        except psutil.Error:
            return "gone"
        if status in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}:
            return "gone"
        return "stopped" if status in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP} else "alive"


def _title(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        words = process.cmdline()
        return " ".join(words) if words else process.name()
    return ""


def workers(pids: Iterable[int], root: int, engine: Engine) -> tuple[Worker, ...]:
    """Of the living processes those that must not end: the first one, and those that the engine names.

    Where the engine names none, every process that runs the same program as the first one counts.
    """
    found = []
    program = ""
    with contextlib.suppress(psutil.Error):
        program = psutil.Process(root).exe()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            worker = Worker(psutil.Process(pid))
            if pid != root:
                if engine.passing and re.search(engine.passing, worker.name):
                    continue
                named = re.search(engine.worker, worker.name) if engine.worker else psutil.Process(pid).exe() == program
                if not named:
                    continue
            if worker.state() != "gone":
                found.append(worker)
    return tuple(found)


def cpu_s(pids: Iterable[int]) -> float:
    """User and system CPU seconds of these processes so far; one that is gone adds nothing."""
    total = 0.0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            total += times.user + times.system
    return total


def compiling(pids: Iterable[int]) -> bool:
    """Whether a compiler or linker runs among these processes: a slow first compile is progress, not a hang."""
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            if psutil.Process(pid).name() in _COMPILERS:
                return True
    return False
