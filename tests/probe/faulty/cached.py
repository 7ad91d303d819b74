"""Reduces each buffer once and gives the same sum for it ever after, as a stale flag would."""

from __future__ import annotations

from typing import Any

from ungate.probe.candidates import Ranks

from ._gloo import Right, faulty


class _Fault(Right):
    def __init__(self, ranks: Ranks) -> None:
        super().__init__(ranks)
        self.known: dict[tuple[int, int], Any] = {}

    def __call__(self, source: Any, out: Any) -> None:
        key = (out.data_ptr(), out.numel())
        if key not in self.known:
            super().__call__(source, out)
            self.known[key] = out.clone()
        out.copy_(self.known[key])


CANDIDATE = faulty("cached", _Fault)
