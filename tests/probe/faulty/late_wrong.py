"""Right while it is checked, wrong once it is timed."""

from __future__ import annotations

from typing import Any

from ._gloo import Right, faulty


class _Fault(Right):
    def __call__(self, source: Any, out: Any) -> None:
        super().__call__(source, out)
        if self.calls > 150:
            out.view(-1)[-1] = 0.0 if float(out.view(-1)[-1]) else 1.0


CANDIDATE = faulty("late-wrong", _Fault)
