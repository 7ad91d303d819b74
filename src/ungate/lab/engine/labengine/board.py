"""The memory through which the server tells its ranks what to do, and the ranks say what they did."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from labengine.models import Array, ModelConfig
from labengine.transformer import Entry

__all__ = ["COUNTERS", "MAX_ENTRIES", "MAX_ROWS", "Board"]

MAX_ROWS = 256
"""Tokens in one step; a longer prompt takes several."""
MAX_ENTRIES = 64
"""Sequences in one step."""

T = TypeVar("T", bound=np.generic)

COUNTERS = ("steps", "all_reduce_calls", "fused_calls", "fused_polls")
_READY, _ANSWERS = len(COUNTERS), len(COUNTERS) + 1


class Board:
    """Made before the fork. The server writes a step and rings; each rank answers by adding to ``done``."""

    def __init__(self, config: ModelConfig, world_size: int) -> None:
        self.world_size = world_size
        self.posted = 0
        self.bells = [os.eventfd(0) for _ in range(world_size)]
        self.done = os.eventfd(0, os.EFD_NONBLOCK)
        self._step = _shared((2 + 3 * MAX_ENTRIES + MAX_ROWS,), np.dtype(np.int32))
        self._counters = _shared((world_size, len(COUNTERS) + 2), np.dtype(np.int64))
        self.logits: Array = _shared((MAX_ENTRIES, config.vocab), np.dtype(np.float32))

    def post(self, entries: Sequence[Entry], tokens: Sequence[int]) -> None:
        """Write a step and wake every rank; a step without entries asks only for an answer."""
        flat = [value for entry in entries for value in (entry.slot, entry.start, entry.count)]
        self._step[:2] = len(entries), len(tokens)
        self._step[2 : 2 + len(flat)] = flat
        self._step[2 + len(flat) : 2 + len(flat) + len(tokens)] = tokens
        self.posted += 1
        for bell in self.bells:
            os.eventfd_write(bell, 1)

    def take(self, rank: int) -> tuple[list[Entry], NDArray[np.int32]]:
        """Sleep until the next step; called by a rank."""
        os.eventfd_read(self.bells[rank])
        entries, rows = (int(value) for value in self._step[:2])
        flat = self._step[2 : 2 + 3 * entries].reshape(-1, 3).tolist()
        return [Entry(*values) for values in flat], self._step[2 + 3 * entries : 2 + 3 * entries + rows]

    def answer(self, rank: int, counters: Sequence[int]) -> None:
        """Say that this rank has finished the step; ``counters`` in the order of :data:`COUNTERS`."""
        self._counters[rank, :_READY] = counters
        self._counters[rank, _ANSWERS] += 1
        os.eventfd_write(self.done, 1)

    def ready(self, rank: int) -> None:
        """Say that this rank can take steps."""
        self._counters[rank, _READY] = 1

    @property
    def all_ready(self) -> bool:
        return bool(self._counters[:, _READY].all())

    def collect(self) -> int:
        """How many answers came since the last call."""
        try:
            return os.eventfd_read(self.done)
        except BlockingIOError:
            return 0

    def missing(self) -> list[int]:
        """Ranks that have not answered every step that was posted."""
        return [rank for rank, count in enumerate(self._counters[:, _ANSWERS]) if count < self.posted]

    def counters(self) -> dict[str, list[int]]:
        """Each counter as a list with one number a rank."""
        return {name: self._counters[:, column].tolist() for column, name in enumerate(COUNTERS)}


def _shared(shape: tuple[int, ...], dtype: np.dtype[T]) -> NDArray[T]:
    memory = mmap.mmap(-1, int(np.prod(shape)) * dtype.itemsize)
    return np.frombuffer(memory, dtype).reshape(shape)
