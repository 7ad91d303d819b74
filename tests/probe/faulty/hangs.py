"""A rank that stops answering in the middle of a call."""

from __future__ import annotations

import time
from typing import Any

from ._gloo import Right, faulty


class _Fault(Right):
    def __call__(self, source: Any, out: Any) -> None:
        if self.ranks.rank == 1 and self.calls > 3:
            time.sleep(3600)
        super().__call__(source, out)


CANDIDATE = faulty("hangs", _Fault)
