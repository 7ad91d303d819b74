"""One element of one rank's output is off by a little."""

from __future__ import annotations

from typing import Any

from ._gloo import Right, faulty


class _Fault(Right):
    def __call__(self, source: Any, out: Any) -> None:
        super().__call__(source, out)
        if self.ranks.rank == 1:
            out.view(-1)[3] += 0.25


CANDIDATE = faulty("wrong-rank", _Fault)
