"""Every fifth call gives the sum of the call before: wrong, and faster than what is right."""

from __future__ import annotations

from typing import Any

from ._gloo import Right, faulty


class _Fault(Right):
    before: Any = None

    def __call__(self, source: Any, out: Any) -> None:
        if self.before is not None and self.before.shape == out.shape and self.calls % 5 == 4:
            self.calls += 1
            out.copy_(self.before)
            return
        super().__call__(source, out)
        self.before = out.clone()


CANDIDATE = faulty("stale", _Fault)
