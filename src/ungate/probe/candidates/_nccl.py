"""NCCL through ``torch.distributed``, in whatever way the environment of the ranks sets it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ungate.probe.candidates import Operation, Ranks

__all__ = ["open_nccl"]


class _AllReduce(Operation):
    in_place = True

    def __init__(self, ranks: Ranks) -> None:
        import torch.distributed as dist

        self._dist = dist
        self._group = dist.new_group(backend="nccl", timeout=timedelta(seconds=ranks.timeout_s))

    def __call__(self, source: Any, out: Any) -> None:
        self._dist.all_reduce(source, group=self._group)

    def close(self) -> None:
        # Left undestroyed after a capture, a group has made the next start of NCCL hang.
        self._dist.destroy_process_group(self._group)


def open_nccl(ranks: Ranks) -> Operation:
    """An NCCL group of all ranks."""
    return _AllReduce(ranks)
