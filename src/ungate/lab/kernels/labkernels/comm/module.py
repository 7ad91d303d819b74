"""The compiled module, loaded once in a process."""

from __future__ import annotations

import ctypes
import functools
import os

from labkernels.jit import gen_allreduce_comm_module

__all__ = ["get_comm_module", "refuse", "spin_limit_ns"]

_WORDS = {1: "the message is larger than the workspace", 2: "the world size is not supported"}


@functools.cache
def get_comm_module() -> ctypes.CDLL:
    """Build and load; the RuntimeError of the build passes through."""
    return gen_allreduce_comm_module().build_and_load()


def spin_limit_ns() -> int:
    """How long a kernel waits for a peer: ``LAB_SPIN_LIMIT_S`` seconds, 60 by default."""
    return int(float(os.environ.get("LAB_SPIN_LIMIT_S", "60")) * 1e9)


def refuse(status: int, operation: str, detail: str = "") -> None:
    """RuntimeError for every status but 0."""
    if status:
        reason = _WORDS.get(status, f"a peer did not answer within {spin_limit_ns() / 1e9:g} s")
        raise RuntimeError(f"{operation} failed: {reason}{detail}.")
