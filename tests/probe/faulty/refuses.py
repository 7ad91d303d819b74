"""Raises on one rank when it is opened, and says why."""

from __future__ import annotations

from ungate.probe.candidates import Operation, Ranks

from ._gloo import faulty


class _Fault(Operation):
    def __init__(self, ranks: Ranks) -> None:
        if ranks.rank == 1:
            raise RuntimeError("No supported CUDA architectures found for major versions [9, 10].")
        import torch.distributed as dist

        dist.barrier(group=ranks.group)


CANDIDATE = faulty("fails-to-open", _Fault)
