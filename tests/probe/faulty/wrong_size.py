"""Wrong for one size only: the second half is not reduced above 8 KiB."""

from __future__ import annotations

from typing import Any

from ._gloo import Right, faulty


class _Fault(Right):
    def __call__(self, source: Any, out: Any) -> None:
        super().__call__(source, out)
        if source.numel() * source.element_size() > 8 << 10:
            half = source.numel() // 2
            out.view(-1)[half:] = source.view(-1)[half:]


CANDIDATE = faulty("wrong-size", _Fault)
