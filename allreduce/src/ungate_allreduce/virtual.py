"""N ranks in one process on one GPU: the real kernels over real host memory, for checks and per-link costs.

All ranks share one link, so N ranks move N times the bytes of one: times are an upper bound, and those of one
rank with its peers' lines already there a lower bound, of what N GPUs do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from .driver import driver
from .launch import STATE_BUDGET_OFFSET, STATE_BYTES, Own, fill, launch_type
from .layout import CELL_BYTES, HEADER_LINES, REPORT_OFFSET, SENTINEL_GENERATIONS, Layout
from .loaded import Kernel, load
from .memory import Segment
from .slots import Slots, host_slots
from .variant import Line, Variant

__all__ = ["VirtualWorld"]

PARTIAL_BYTES = 1 << 20


class VirtualWorld:
    """Slots, counters and reports of ``world`` virtual ranks. Not for serving."""

    def __init__(self, world: int, max_bytes: int, deadline_s: float = 1.0) -> None:
        import torch

        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self.world = world
        self.layout = Layout(world, max_bytes)
        self.segment = Segment.create(self.layout.segment_bytes)
        self.segment.forget_name()
        self.alias = driver().register(self.segment.address, self.segment.size)
        self.slots: Slots = host_slots(self.layout, self.alias)
        self.states = [torch.zeros(STATE_BYTES, dtype=torch.uint8, device="cuda") for _ in range(world)]
        self.partials = [torch.zeros(PARTIAL_BYTES, dtype=torch.uint8, device="cuda") for _ in range(world)]
        major, minor = torch.cuda.get_device_capability()
        self.arch = 10 * major + minor
        self.multiprocessors: int = torch.cuda.get_device_properties(0).multi_processor_count
        self.deadline_s = deadline_s
        self.kernels: dict[Variant, Kernel] = {}
        self.streams = [torch.cuda.Stream() for _ in range(world)]
        self.clear()

    def clear(self) -> None:
        """As new: slots, counters and reports."""
        import torch

        torch.cuda.synchronize()
        start = self.layout.sentinel_offset
        for rank in range(self.world):
            slot = self.layout.slot(rank)
            self.segment.fill(slot, start, 0)
            self.segment.fill(slot + start, self.layout.slot_bytes - start, 0xFF)
            self.segment.word(REPORT_OFFSET + CELL_BYTES * rank).value = 0
            self.states[rank].zero_()
            self.partials[rank].zero_()
            budget = torch.tensor([int(self.deadline_s * 1e9)], dtype=torch.int64).view(torch.uint8)
            self.states[rank][STATE_BUDGET_OFFSET : STATE_BUDGET_OFFSET + 8].copy_(budget)
        torch.cuda.synchronize()

    def kernel(self, variant: Variant) -> Kernel:
        """A loaded kernel."""
        if variant not in self.kernels:
            self.kernels[variant] = load(variant, self.arch, self.multiprocessors)
        return self.kernels[variant]

    def own(self, rank: int) -> Own:
        """Addresses of one rank."""
        return Own(rank, self.states[rank].data_ptr(), self.partials[rank].data_ptr(), self.alias + REPORT_OFFSET)

    def launch(
        self,
        variant: Variant,
        rows: int | Sequence[int],
        addresses: Sequence[dict[str, int]],
        *,
        epsilon: float = 0.0,
        ranks: Sequence[int] | None = None,
        grid: int | None = None,
        stream: Any = None,
    ) -> None:
        """Enqueue all ranks in one launch, or those in ``ranks`` in a launch of their own.

        One launch of all ranks needs a variant with ``virtual`` = world; blocks wait for each other, so the grid
        is limited to what the GPU holds at once.
        """
        import torch

        kernel = self.kernel(variant)
        chosen = list(ranks) if ranks is not None else list(range(self.world))
        counts = [rows] * self.world if isinstance(rows, int) else list(rows)
        argument: Any = launch_type(variant.world, variant.targets, variant.virtual)()
        for place, rank in enumerate(chosen):
            fill(
                argument.rank[place],
                self.layout,
                self.slots,
                self.own(rank),
                variant,
                counts[rank],
                addresses[rank],
                epsilon,
            )
        driver().launch(
            kernel.function,
            argument,
            grid=(kernel.grid(counts[chosen[0]], grid), len(chosen)),
            block=variant.block,
            stream=(stream or torch.cuda.current_stream()).cuda_stream,
            pdl=kernel.pdl and variant.virtual == 1,
        )

    def arrive(self, variant: Variant, rows: int, rank: int = 0) -> None:
        """Let every peer of ``rank`` have sent its call already, for ever: with a ``frozen`` variant each launch
        of ``rank`` is this same call. What is then timed is one rank's own work, its peers' lines being there.
        """
        import torch

        self.clear()
        layout, lines = self.layout, variant.lines(rows)
        tag = 1
        sentinel = variant.line is Line.F16
        area = layout.sentinel_offset if sentinel else layout.tagged_offset + tag * layout.tagged_generation
        for peer in range(self.world):
            if peer == rank:
                continue
            slot = layout.slot(peer)
            header = (variant.identity() | tag << 32, rows | tag << 32)
            for copy in range(HEADER_LINES):
                for place, word in enumerate(header):
                    self.segment.word(slot + layout.header(tag) + CELL_BYTES * copy + 8 * place).value = word
            line = np.full((lines, 4), 0x3F803F80 + peer, np.uint32)
            if not sentinel:
                line[:, 3] = tag
                if variant.line is Line.LL8:
                    line[:, 1] = tag
            ctypes.memmove(self.segment.address + slot + area, line.ctypes.data, line.nbytes)
        if sentinel:
            words = np.array([SENTINEL_GENERATIONS, 0] + [lines] * 8, np.uint32).view(np.uint8)
            self.states[rank][8:48].copy_(torch.from_numpy(words))
        torch.cuda.synchronize()

    def reports(self) -> list[int]:
        """Report word of each rank; 0 is none."""
        return [self.segment.word(REPORT_OFFSET + CELL_BYTES * rank).value for rank in range(self.world)]

    def close(self) -> None:
        """Free everything."""
        import torch

        torch.cuda.synchronize()
        driver().unregister(self.segment.address)
        self.segment.close()
