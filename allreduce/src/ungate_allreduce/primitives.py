"""Launches of the primitive kernels: what a transfer through host memory costs on this machine, part by part."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from .compile import compile_kernel
from .driver import Function, driver

__all__ = ["NAMES", "launch", "primitive"]

NAMES = (
    "empty",
    "chain",
    "store_fence",
    "ping_pong",
    "stream_read",
    "stream_write",
    "spin",
    "tear",
)


class Args(ctypes.Structure):
    """``struct Args`` of ``kernels/primitives.cu``."""

    _fields_ = (
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
        ("sink", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
        ("limit_ns", ctypes.c_uint32),
    )


@cache
def primitive(name: str, arch: int, device: int) -> Function:
    """A primitive kernel, loaded into the current context of ``device``."""
    return driver().load(compile_kernel("primitives.cu", str(arch), {}).data, name)


def launch(
    name: str,
    *,
    a: int = 0,
    b: int = 0,
    sink: int = 0,
    count: int = 0,
    limit_ns: int = 0,
    grid: int = 1,
    block: int = 32,
    stream: Any = None,
) -> None:
    """Enqueue one primitive on a torch stream (the current one by default). Addresses are device addresses."""
    import torch

    device = torch.cuda.current_device()
    major, minor = torch.cuda.get_device_capability(device)
    function = primitive(name, 10 * major + minor, device)
    chosen = stream if stream is not None else torch.cuda.current_stream()
    arguments = Args(a, b, sink, count, limit_ns)
    driver().launch(function, arguments, grid=(grid, 1), block=block, stream=chosen.cuda_stream, pdl=False)
