"""The group of tensor-parallel ranks, and its own allreduce, which sleeps while it waits.

The ranks are forked from one process and share anonymous memory and event counters: nothing of it
has a name, so nothing is left when they die, however they die.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass

import numpy as np

from labengine.models import Array

__all__ = [
    "GroupMemory",
    "TensorParallelGroup",
    "get_tensor_model_parallel_rank",
    "get_tensor_model_parallel_world_size",
    "get_tp_group",
    "set_tp_group",
    "tensor_model_parallel_all_reduce",
]


@dataclass(frozen=True)
class GroupMemory:
    """What the launcher makes before it forks: staging memory and, for two alternating rounds, a counter a rank."""

    world_size: int
    max_rows: int
    hidden: int
    staging: mmap.mmap
    arrivals: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def create(cls, world_size: int, max_rows: int, hidden: int) -> GroupMemory:
        staging = mmap.mmap(-1, 2 * world_size * max_rows * hidden * 4)
        even, odd = (tuple(os.eventfd(0) for _ in range(world_size)) for _ in range(2))
        return cls(world_size, max_rows, hidden, staging, (even, odd))


class TensorParallelGroup:
    """One rank's place in the group."""

    def __init__(self, memory: GroupMemory, rank: int) -> None:
        self.rank = rank
        self.world_size = memory.world_size
        self.all_reduce_calls = 0
        self._round = 0
        self._own = [arrivals[rank] for arrivals in memory.arrivals]
        self._peers = [
            [counter for peer, counter in enumerate(arrivals) if peer != rank] for arrivals in memory.arrivals
        ]
        shape = (2, memory.world_size, memory.max_rows, memory.hidden)
        self._staging = np.frombuffer(memory.staging, np.float32).reshape(shape)

    def barrier(self) -> None:
        """Sleep until every rank has come."""
        # A rank that is one round ahead adds to the other counter; it cannot be two ahead.
        turn = self._round & 1
        self._round += 1
        for counter in self._peers[turn]:
            os.eventfd_write(counter, 1)
        missing = self.world_size - 1
        while missing:
            missing -= os.eventfd_read(self._own[turn])

    def all_reduce(self, values: Array) -> Array:
        """The sum over ranks of a (rows, hidden) array, added in rank order so that all get the same bits."""
        staging = self._staging[self._round & 1, :, : len(values)]
        staging[self.rank] = values
        self.barrier()
        self.all_reduce_calls += 1
        total: Array = np.add.reduce(staging, axis=0)
        return total


_group: TensorParallelGroup | None = None


def set_tp_group(group: TensorParallelGroup) -> None:
    """Make the group known to the modules of this process."""
    global _group  # noqa: PLW0603
    _group = group


def get_tp_group() -> TensorParallelGroup:
    """The group of this process; RuntimeError before it is set."""
    if _group is None:
        raise RuntimeError("This process belongs to no tensor-parallel group.")
    return _group


def get_tensor_model_parallel_rank() -> int:
    """This process's rank, from 0."""
    return get_tp_group().rank


def get_tensor_model_parallel_world_size() -> int:
    """How many ranks there are."""
    return get_tp_group().world_size


def tensor_model_parallel_all_reduce(values: Array) -> Array:
    """Sum over the ranks; with one rank, the values themselves."""
    group = get_tp_group()
    return values if group.world_size == 1 else group.all_reduce(values)
