"""Starts a process that outlives it, in a session of its own, and leaves a file in shared memory."""

from __future__ import annotations

import mmap
import os
import subprocess
from pathlib import Path
from typing import Any

from ._gloo import Right, faulty


class _Fault(Right):
    def __call__(self, source: Any, out: Any) -> None:
        if self.ranks.rank == 0 and not self.calls:
            subprocess.Popen(["sleep", "3599"], start_new_session=True)
            path = Path("/dev/shm") / f"ungate-test-left-{os.getppid()}"
            path.write_bytes(bytes(4096))
            with path.open("r+b") as stream:
                self.kept = mmap.mmap(stream.fileno(), 4096)
        super().__call__(source, out)


CANDIDATE = faulty("leaves", _Fault)
