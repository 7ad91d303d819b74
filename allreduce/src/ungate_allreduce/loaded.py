"""Kernels of this process, compiled or read from the cache and loaded into the current context."""

from __future__ import annotations

from dataclasses import dataclass

from .compile import compile_kernel
from .driver import Function, driver
from .errors import Unsupported
from .variant import Quant, Variant

__all__ = ["ARCHS", "Kernel", "load", "target_of"]

ARCHS = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
"""Compute capabilities that the kernels are compiled for in the tests: all of CUDA 13's NVRTC."""
NATIVE_E2M1 = (100, 103, 110, 120, 121)
"""Compute capabilities whose ``a`` target has cvt.rn.satfinite.e2m1x2.f32."""


@dataclass(frozen=True)
class Kernel:
    """A loaded kernel: ``resident`` is how many of its blocks the whole GPU holds at once."""

    variant: Variant
    function: Function
    resident: int
    registers: int
    pdl: bool

    def grid(self, rows: int, limit: int | None = None) -> int:
        """Blocks for a message: all resident at once, whole rows when rows are split."""
        share = self.resident // self.variant.virtual
        most = share if limit is None else min(limit, share)
        grid = min(self.variant.tiles(rows), most)
        grid -= grid % self.variant.split
        if grid < self.variant.split:
            raise Unsupported(
                f"This GPU holds {share} blocks of the kernel, fewer than the {self.variant.split} a row needs."
            )
        return grid


def target_of(variant: Variant, arch: int) -> tuple[str, bool]:
    """NVRTC target for a compute capability, and whether it converts to e2m1 in hardware."""
    native = variant.quant is Quant.NVFP4 and arch in NATIVE_E2M1
    return (f"{arch}a" if native else str(arch)), native


def load(variant: Variant, arch: int, multiprocessors: int) -> Kernel:
    """Compile (or read) and load one variant; seconds on a cold cache, so never while a peer waits."""
    target, native = target_of(variant, arch)
    image = compile_kernel("allreduce.cu", target, variant.defines(arch, native_e2m1=native))
    function = driver().load(image.data, "allreduce")
    blocks = driver().resident_blocks(function, variant.block)
    registers = driver().function_attribute(function, "registers")
    return Kernel(variant, function, blocks * multiprocessors, registers, arch >= 90)
