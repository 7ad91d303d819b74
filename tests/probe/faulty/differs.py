"""Ranks that hold different bits, each of them within what rounding allows."""

from __future__ import annotations

from typing import Any

from ._gloo import Right, faulty


class _Fault(Right):
    def __call__(self, source: Any, out: Any) -> None:
        import torch

        super().__call__(source, out)
        if self.ranks.rank == 1:
            terms = source.abs() + (out - source).abs()  # where they nearly cancel, one more bit is allowed
            index = int(((terms > 4 * out.abs()) & (out != 0)).view(-1).to(torch.uint8).argmax())
            out.view(torch.int16).view(-1)[index] ^= 1


CANDIDATE = faulty("differs", _Fault)
