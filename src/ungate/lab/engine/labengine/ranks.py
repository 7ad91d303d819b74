"""The rank processes: forked, watched, ended.

A rank dies with its parent (PR_SET_PDEATHSIG), whatever ends the parent, and holds nothing that has a name.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass, field

from labengine.worker import Inheritance, run_rank

__all__ = ["RankDied", "Ranks", "configure_logging"]

logger = logging.getLogger(__name__)

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


class RankDied(Exception):
    """A rank process ended; the text says which and how."""


@dataclass
class Ranks:
    """The living rank processes."""

    inherited: Inheritance
    pids: list[int] = field(default_factory=list)

    def start(self, listener: socket.socket) -> None:
        """Fork every rank; the children close ``listener``. No thread may run yet."""
        for rank in range(self.inherited.args.tp):
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                listener.close()
                _become_rank(self.inherited, rank, parent)
            self.pids.append(pid)

    def wait_ready(self) -> None:
        """Return when every rank can take steps; RankDied when one ended before."""
        while not self.inherited.board.all_ready:
            self.check()
            time.sleep(0.01)

    def check(self) -> None:
        """RankDied when a rank process has ended."""
        for rank, pid in enumerate(self.pids):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.pids[rank] = 0
                code = os.waitstatus_to_exitcode(status)
                how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
                raise RankDied(f"rank {rank} (pid {pid}) {how}")

    def stop(self) -> None:
        """End every rank and reap it. They hold nothing that wants closing, so they are not asked."""
        living = [pid for pid in self.pids if pid]
        self.pids = []
        for pid in living:
            os.kill(pid, signal.SIGKILL)
        for pid in living:
            os.waitpid(pid, 0)

    def probe(self, deadline_s: float) -> bool:
        """Send an empty step and wait for all answers; False after ``deadline_s``."""
        board = self.inherited.board
        board.post([], [])
        missing, end = board.world_size, time.monotonic() + deadline_s
        while missing and time.monotonic() < end:
            select.select([board.done], [], [], 0.05)
            missing -= board.collect()
            self.check()
        return not missing


def configure_logging(who: str) -> None:
    """Lines on stderr: time, who, message."""
    form = f"%(asctime)s.%(msecs)03d [{who}] %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=form, datefmt="%H:%M:%S", force=True)


def _become_rank(inherited: Inheritance, rank: int, parent: int) -> None:
    code = 1
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        libc.prctl(_PR_SET_NAME, f"labengine-tp{rank}".encode())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        configure_logging(f"TP{rank}")
        run_rank(inherited, rank)
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else 1
    except BaseException:
        logger.error("rank %d hit an exception\n%s", rank, traceback.format_exc().rstrip())
    finally:
        sys.stderr.flush()
        os._exit(code)
