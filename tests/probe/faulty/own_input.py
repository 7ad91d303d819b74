"""Gives every rank its own input: the fastest allreduce of all."""

from __future__ import annotations

from typing import Any

from ._gloo import Right, faulty


class _Fault(Right):
    def __call__(self, source: Any, out: Any) -> None:
        out.copy_(source)


CANDIDATE = faulty("own-input", _Fault)
