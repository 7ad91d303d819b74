"""Endurance: graphs whose calls draw new data and a new delay each replay and check their own results."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from .compile import compile_kernel
from .driver import Function, driver
from .variant import Dtype, Line, Variant, fitting

__all__ = ["MIX", "Endurance", "Shape", "mix"]


class Args(ctypes.Structure):
    """``struct Args`` of ``kernels/replay.cu``."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("residual", ctypes.c_uint64),
        ("cell", ctypes.c_uint64),
        ("sink", ctypes.c_uint64),
        ("words", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("world", ctypes.c_uint32),
        ("salt", ctypes.c_uint32),
        ("limit_ns", ctypes.c_uint32),
        ("spare", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class Shape:
    """One call of the mix: a fused call of ``rows`` x ``hidden``, or a plain one of ``rows`` elements."""

    line: Line
    rows: int
    hidden: int = 0
    shots: int = 1
    split: int = 1

    def variant(self, world: int, push: bool = False) -> Variant:
        """The kernel for this call."""
        if not self.hidden:
            return Variant(world, Dtype.BFLOAT16, self.line, self.shots, threads=256, vec=2, push=push)
        wanted = Variant(
            world, Dtype.BFLOAT16, self.line, self.shots, self.hidden, threads=256, split=self.split, push=push
        )
        return fitting(wanted)

    @property
    def words(self) -> int:
        """4-byte words of the tensor."""
        return self.rows * max(self.hidden, 1) // 2


MIX = (
    Shape(Line.LL8, 1, 4096),
    Shape(Line.F16, 3, 4096),
    Shape(Line.F16, 2050),
    Shape(Line.LL8, 4, 2048, split=2),
    Shape(Line.F16, 1, 8192, split=4),
    Shape(Line.LL8, 30002),
    Shape(Line.F16, 7, 1024),
    Shape(Line.LL8, 2),
)
"""Sizes from 4 bytes to 60 KB, both formats alternating, so that generations meet lines of other calls."""


def mix(world: int) -> tuple[Shape, ...]:
    """The mix for a world; from four ranks on every second call of a format takes two shots."""
    if world < 4:
        return MIX
    return tuple(
        Shape(shape.line, shape.rows, shape.hidden, 2 if place % 4 < 2 else 1, shape.split)
        for place, shape in enumerate(MIX)
    )


@cache
def _function(name: str, arch: int, device: int) -> Function:
    return driver().load(compile_kernel("replay.cu", str(arch), {}).data, name)


class Endurance:
    """One rank's graph over the mix. ``launch(variant, rows, addresses)`` enqueues a call of this rank."""

    def __init__(self, rank: int, world: int, shapes: Sequence[Shape], skew_ns: int, *, push: bool = False) -> None:
        import torch

        self.rank, self.world, self.shapes, self.skew_ns, self.push = rank, world, tuple(shapes), skew_ns, push
        most = max(shape.words for shape in shapes)
        self.input = torch.zeros(most, dtype=torch.int32, device="cuda")
        self.out = torch.zeros(most, dtype=torch.int32, device="cuda")
        self.norm = torch.zeros(most, dtype=torch.int32, device="cuda")
        generator = torch.Generator().manual_seed(7)
        residual = torch.randn(2 * most, generator=generator).to(torch.bfloat16)
        self.residual = residual.view(torch.int32).cuda()
        self.weight = torch.ones(16384, dtype=torch.bfloat16, device="cuda")
        self.cell = torch.tensor([0, 1000 + rank], dtype=torch.int64, device="cuda")
        self.sink = torch.zeros(3, dtype=torch.int64, device="cuda")
        major, minor = torch.cuda.get_device_capability()
        self.arch, self.device = 10 * major + minor, torch.cuda.current_device()

    def _run(self, name: str, stream: Any, grid: int, block: int, **given: int) -> None:
        function = _function(name, self.arch, self.device)
        arguments = Args(cell=self.cell.data_ptr(), rank=self.rank, world=self.world, **given)
        driver().launch(function, arguments, grid=(grid, 1), block=block, stream=stream.cuda_stream, pdl=False)

    def enqueue(self, launch: Callable[[Variant, int, dict[str, int]], None], stream: Any) -> None:
        """All calls of the mix once, on the current stream, which has to be ``stream``."""
        for salt, shape in enumerate(self.shapes):
            grid = max(1, min(16, shape.words // 1024))
            self._run("next", stream, 1, 1, limit_ns=self.skew_ns)
            self._run("scramble", stream, grid, 256, data=self.input.data_ptr(), words=shape.words, salt=salt)
            addresses = {"input": self.input.data_ptr()}
            if shape.hidden:
                addresses |= {
                    "residual": self.residual.data_ptr(),
                    "weight": self.weight.data_ptr(),
                    "residual_out": self.out.data_ptr(),
                    "out": self.norm.data_ptr(),
                }
            else:
                addresses |= {"out": self.out.data_ptr()}
            launch(shape.variant(self.world, self.push), shape.rows, addresses)
            self._run(
                "verify",
                stream,
                grid,
                256,
                data=self.out.data_ptr(),
                residual=self.residual.data_ptr() if shape.hidden else 0,
                sink=self.sink.data_ptr(),
                words=shape.words,
                salt=salt,
            )

    def result(self) -> tuple[int, int]:
        """Wrong words and calls verified so far; waits for the device."""
        wrong, calls, _ = self.sink.tolist()
        return int(wrong), int(calls)
