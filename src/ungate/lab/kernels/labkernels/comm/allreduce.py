"""Two-shot allreduce for large messages."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
from numpy.typing import NDArray

from .module import get_comm_module, refuse, spin_limit_ns

__all__ = ["TwoShotWorkspace", "allreduce_two_shot"]

MAX_RANKS = 8
FLAG_BYTES = 2 * MAX_RANKS * 4


class Params(ctypes.Structure):
    """``TwoShotParams`` of allreduce.h."""

    _fields_ = (
        ("flags", ctypes.c_void_p),
        ("staging", ctypes.c_void_p),
        ("input", ctypes.c_void_p),
        ("output", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("capacity", ctypes.c_int64),
        ("limit_ns", ctypes.c_int64),
        ("sequence", ctypes.c_uint32),
        ("rank", ctypes.c_int32),
        ("world_size", ctypes.c_int32),
        ("status", ctypes.c_int32),
    )


class TwoShotWorkspace:
    """One rank's view of a zeroed shared mapping of at least :meth:`size` bytes."""

    def __init__(self, shared: mmap.mmap, rank: int, world_size: int, capacity: int) -> None:
        if len(shared) < self.size(world_size, capacity):
            raise ValueError(f"{len(shared)} bytes do not hold {capacity} values for {world_size} ranks.")
        self.module = get_comm_module()
        self.bytes = np.frombuffer(shared, np.uint8)
        start = self.bytes.ctypes.data
        self.params = Params(
            flags=start,
            staging=start + FLAG_BYTES,
            capacity=capacity,
            limit_ns=spin_limit_ns(),
            rank=rank,
            world_size=world_size,
        )

    @staticmethod
    def size(world_size: int, capacity: int) -> int:
        """Bytes of the shared mapping for messages of ``capacity`` float32 values."""
        return FLAG_BYTES + 2 * (world_size + 1) * capacity * 4


def allreduce_two_shot(values: NDArray[np.float32], workspace: TwoShotWorkspace) -> NDArray[np.float32]:
    """The sum over ranks of a contiguous float32 array; every rank calls it in the same order with the same size."""
    if values.dtype != np.float32 or not values.flags.c_contiguous:
        raise ValueError(f"A contiguous float32 array is needed, not {values.dtype} with strides {values.strides}.")
    total = np.empty_like(values)
    params = workspace.params
    params.sequence += 1
    params.count = values.size
    params.input = values.ctypes.data
    params.output = total.ctypes.data
    refuse(workspace.module.allreduce_two_shot(ctypes.byref(params)), "allreduce_two_shot")
    return total
