"""Leaves the end of the output as it was."""

from __future__ import annotations

from typing import Any

from ._gloo import Right, faulty


class _Fault(Right):
    def __call__(self, source: Any, out: Any) -> None:
        whole = out.clone()
        super().__call__(source, whole)
        out.view(-1)[:-8] = whole.view(-1)[:-8]


CANDIDATE = faulty("unwritten", _Fault)
