"""PyTorch's allreduce on symmetric memory: the message is copied into a buffer that all ranks have mapped."""

from __future__ import annotations

import importlib
from typing import Any

from ungate.probe.candidates import Facts, Operation, Ranks
from ungate.probe.candidates._facts import needs_peers

__all__ = ["Symmetric", "needs_symmetric"]


class Symmetric(Operation):
    """One-shot reads all peers and writes the output; two-shot reduces in the buffer, and the sum is copied out."""

    def __init__(self, ranks: Ranks, *, one_shot: bool) -> None:
        import torch
        import torch.distributed as dist

        memory: Any = importlib.import_module("torch.distributed._symmetric_memory")
        self._ops, self._one_shot, self._size = torch.ops.symm_mem, one_shot, ranks.dtype.itemsize
        group = dist.group.WORLD
        assert group is not None
        self._group: str = group.group_name
        self._buffer = memory.empty(ranks.max_bytes // self._size, dtype=ranks.dtype, device=ranks.device)
        self._mapped = memory.rendezvous(self._buffer, self._group)

    def refuses(self, rows: int, hidden: int) -> str:
        return "It takes messages of whole 16-byte vectors." if rows * hidden * self._size % 16 else ""

    def __call__(self, source: Any, out: Any) -> None:
        part = self._buffer[: source.numel()]
        part.copy_(source.view(-1))
        if self._one_shot:
            self._ops.one_shot_all_reduce_out(part, "sum", self._group, out.view(-1))
        else:
            self._ops.two_shot_all_reduce_(part, "sum", self._group)
            out.view(-1).copy_(part)


def needs_symmetric(facts: Facts) -> str:
    """Whether this PyTorch has it, and peer access."""
    version = tuple(int(part) if part.isdigit() else 0 for part in (facts.torch or "0").split("+")[0].split("."))[:2]
    if version < (2, 6):
        return f"PyTorch {facts.torch} of this Python has no symmetric memory of this kind; it came with 2.6."
    return needs_peers(facts)
