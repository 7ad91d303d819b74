"""Allreduce, residual add and RMSNorm in one kernel."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .module import get_comm_module, refuse, spin_limit_ns

__all__ = ["FusionWorkspace", "allreduce_fusion"]

BUFFERS = 3


class State(ctypes.Structure):
    """``LamportState`` of allreduce_fusion.h."""

    _fields_ = (
        ("rounds", ctypes.c_uint64),
        ("polls", ctypes.c_uint64),
        ("written", ctypes.c_int64 * BUFFERS),
        ("waited_for", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    )


class Params(ctypes.Structure):
    """``FusionParams`` of allreduce_fusion.h."""

    _fields_ = (
        ("buffers", ctypes.c_void_p),
        ("state", ctypes.POINTER(State)),
        ("allreduce_in", ctypes.c_void_p),
        ("residual_in", ctypes.c_void_p),
        ("rms_gamma", ctypes.c_void_p),
        ("residual_out", ctypes.c_void_p),
        ("norm_out", ctypes.c_void_p),
        ("capacity", ctypes.c_int64),
        ("limit_ns", ctypes.c_int64),
        ("rank", ctypes.c_int32),
        ("world_size", ctypes.c_int32),
        ("tokens", ctypes.c_int32),
        ("hidden", ctypes.c_int32),
        ("rms_eps", ctypes.c_float),
        ("status", ctypes.c_int32),
    )


class FusionWorkspace:
    """One rank's view of the buffers that all ranks share.

    ``shared`` is a writable shared mapping of at least :meth:`size` bytes. Every rank makes its
    workspace, then all must meet at a barrier of their own before the first operation.
    """

    def __init__(self, shared: mmap.mmap, rank: int, world_size: int, max_tokens: int, hidden: int) -> None:
        if len(shared) < self.size(world_size, max_tokens, hidden):
            raise ValueError(f"{len(shared)} bytes do not hold {max_tokens} rows of {hidden} for {world_size} ranks.")
        self.module = get_comm_module()
        self.state = State()
        self.words = np.frombuffer(shared, np.uint32)
        self.params = Params(
            buffers=self.words.ctypes.data,
            state=ctypes.pointer(self.state),
            capacity=max_tokens * hidden,
            limit_ns=spin_limit_ns(),
            rank=rank,
            world_size=world_size,
            hidden=hidden,
        )
        refuse(self.module.lamport_initialize(ctypes.byref(self.params)), "lamport_initialize")

    @staticmethod
    def size(world_size: int, max_tokens: int, hidden: int) -> int:
        """Bytes of the shared mapping."""
        return BUFFERS * world_size * max_tokens * hidden * 4

    @property
    def polls(self) -> int:
        """How often this rank looked at a word that was not there yet; counted by the kernel."""
        return int(self.state.polls)


def allreduce_fusion(
    *,
    allreduce_in: NDArray[np.float32],
    residual_in: NDArray[np.float32],
    rms_gamma: NDArray[np.float32],
    rms_eps: float,
    workspace: FusionWorkspace,
    residual_out: NDArray[np.float32],
    norm_out: NDArray[np.float32],
) -> None:
    """``residual_out = residual_in + sum(allreduce_in)``; ``norm_out = rms_norm(residual_out) * rms_gamma``.

    All arrays are C-contiguous float32 of shape (tokens, hidden), ``rms_gamma`` (hidden,). Every rank
    calls it in the same order with the same shape. RuntimeError when a peer does not come.
    """
    params = workspace.params
    tokens, hidden = allreduce_in.shape
    if hidden != params.hidden:
        raise ValueError(f"The workspace is for rows of {params.hidden}, not {hidden}.")
    params.tokens = tokens
    params.allreduce_in = _address(allreduce_in)
    params.residual_in = _address(residual_in)
    params.rms_gamma = _address(rms_gamma)
    params.residual_out = _address(residual_out)
    params.norm_out = _address(norm_out)
    params.rms_eps = rms_eps
    status = workspace.module.allreduce_fusion(ctypes.byref(params))
    refuse(status, "allreduce_fusion", f" (rank {params.rank} waited for rank {workspace.state.waited_for})")


def _address(array: NDArray[np.float32]) -> Any:
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        raise ValueError(f"A contiguous float32 array is needed, not {array.dtype} with strides {array.strides}.")
    return array.__array_interface__["data"][0]
