"""A rank that ends by a signal while it is timed."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from ._gloo import Right, faulty


class _Fault(Right):
    def __call__(self, source: Any, out: Any) -> None:
        if self.ranks.rank == 1 and self.calls > 60:
            print("the last words of rank 1", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        super().__call__(source, out)


CANDIDATE = faulty("crashes", _Fault)
