"""The protocol executed by CPU threads and processes over real shared memory, line by line as the kernels do it.

Slow, for checks: one store of 8 bytes (LL8) or four of 4 bytes (F16) a line, the layout, headers, generations,
re-arming, deadline and report words of the kernels.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np

from . import reference
from .errors import CallMismatch, PeerTimeout
from .layout import CELL_BYTES, HEADER_LINES, REPORT_OFFSET, SENTINEL_GENERATIONS, Layout
from .memory import Segment
from .reference import Bits
from .variant import Dtype, Line, Variant

__all__ = ["CpuRank", "prepare"]

SENTINEL = 0xFFFFFFFF
SUBSTITUTE = 0xFFFEFFFF


def prepare(segment: Segment, layout: Layout) -> None:
    """Fill all slots as a workspace does before the first call."""
    for rank in range(layout.world):
        slot = layout.slot(rank)
        segment.fill(slot, layout.sentinel_offset, 0)
        segment.fill(slot + layout.sentinel_offset, layout.slot_bytes - layout.sentinel_offset, 0xFF)


class CpuRank:
    """One rank; ``pause`` is called between steps, so that a test can put ranks out of step."""

    def __init__(
        self,
        segment: Segment,
        layout: Layout,
        rank: int,
        *,
        deadline_s: float = 5.0,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self.layout, self.rank, self.world = layout, rank, layout.world
        self.deadline_s, self.pause = deadline_s, pause
        self.epoch = 0
        self.sentinel_calls = 0
        self.used = [0] * SENTINEL_GENERATIONS
        self._call = (0, 0)
        view = memoryview((ctypes.c_ubyte * segment.size).from_address(segment.address)).cast("B")
        self.wide = view.cast("Q")
        self.narrow = view.cast("I")

    def all_reduce(self, tensor: Bits, dtype: Dtype, line: Line, *, shots: int = 1) -> Bits:
        """Reduce the bits of a tensor; raises PeerTimeout or CallMismatch as a workspace does."""
        variant = Variant(self.world, dtype, line, shots)
        lines = variant.lines(tensor.size)
        if lines > self.layout.capacity(line):
            raise ValueError(f"{lines} lines do not fit into {self.layout.capacity(line)}")
        per_line = int(line)
        words = np.zeros(lines * per_line, np.uint32)
        words.view(np.uint8)[: tensor.nbytes] = np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
        if line is Line.F16:
            words[words == SENTINEL] = SUBSTITUTE
        own = words.reshape(lines, per_line)
        tag = (self.epoch + 1) & 0xFFFFFFFF
        area = self._area(line, tag)
        segment = -(-lines // self.world)
        mine = range(self.rank * segment, min(lines, (self.rank + 1) * segment)) if shots == 2 else range(lines)

        self._put_headers(variant, tensor.size, lines, tag)
        for index in range(lines):
            if shots == 1 or index not in mine:
                self._store(self.layout.slot(self.rank) + area + 16 * index, own[index], line, tag)
            self.pause()
        self._rearm(line)
        self._call = (variant.identity(), tensor.size)
        total = np.zeros_like(own)
        for index in mine:
            terms = [
                own[index] if peer == self.rank else self._load(peer, area + 16 * index, line, tag)
                for peer in range(self.world)
            ]
            total[index] = _sum(terms, dtype)
            self.pause()
        if shots == 2:
            for index in mine:
                self._store(self.layout.slot(self.rank) + area + 16 * index, total[index], line, tag)
            for index in range(lines):
                if index not in mine:
                    total[index] = self._load(index // segment, area + 16 * index, line, tag)
                self.pause()
        self._check_headers(tag)
        self._finish(line, lines, tag)
        integer = np.uint32 if dtype is Dtype.FLOAT32 else np.uint16
        return total.reshape(-1).view(integer)[: tensor.size].reshape(tensor.shape)

    def _area(self, line: Line, tag: int) -> int:
        layout = self.layout
        if line is Line.F16:
            generation = self.sentinel_calls % SENTINEL_GENERATIONS
            return layout.sentinel_offset + generation * layout.sentinel_generation
        return layout.tagged_offset + (tag & 1) * layout.tagged_generation

    def _store(self, at: int, words: Bits, line: Line, tag: int) -> None:
        if line is Line.LL8:
            self.wide[at // 8] = int(words[0]) | tag << 32
            self.wide[at // 8 + 1] = int(words[1]) | tag << 32
        else:
            # The last word first: no order among the words of a line may matter.
            for place in reversed(range(4)):
                self.narrow[at // 4 + place] = int(words[place])

    def _load(self, peer: int, offset: int, line: Line, tag: int) -> Bits:
        at = self.layout.slot(peer) + offset
        end = time.monotonic() + self.deadline_s
        while True:
            if line is Line.LL8:
                first, second = self.wide[at // 8], self.wide[at // 8 + 1]
                if first >> 32 == tag and second >> 32 == tag:
                    return np.array([first & SENTINEL, second & SENTINEL], np.uint32)
            else:
                words = [self.narrow[at // 4 + place] for place in range(4)]
                if SENTINEL not in words:
                    return np.array(words, np.uint32)
            self._wait(peer, tag, end)

    def _wait(self, peer: int, tag: int, end: float) -> None:
        self._heard(peer, tag)
        for other in range(self.world):
            if other != self.rank and self.wide[(REPORT_OFFSET + CELL_BYTES * other) // 8]:
                self._report(3, other, tag)
                raise PeerTimeout(f"Rank {other} gave up before or in call {tag}.")
        if time.monotonic() > end:
            self._report(1, peer, tag)
            raise PeerTimeout(f"Rank {peer} did not arrive at call {tag} within {self.deadline_s:g} s.")
        time.sleep(0)

    def _report(self, reason: int, peer: int, tag: int) -> None:
        self.wide[(REPORT_OFFSET + CELL_BYTES * self.rank) // 8] = reason | peer << 8 | tag << 32

    def _put_headers(self, variant: Variant, rows: int, lines: int, tag: int) -> None:
        for copy in range(max(1, min(HEADER_LINES, lines // 64))):
            at = self.layout.slot(self.rank) + self.layout.header(tag) + CELL_BYTES * copy
            self.wide[at // 8] = variant.identity() | tag << 32
            self.wide[at // 8 + 1] = rows | tag << 32
        spare = (tag >> 1) % self.layout.tagged_lines
        if variant.line is Line.F16 or spare >= lines:
            at = self.layout.slot(self.rank) + self.layout.tagged_offset + (tag & 1) * self.layout.tagged_generation
            self.wide[at // 8 + 2 * spare] = self.wide[at // 8 + 2 * spare + 1] = tag << 32

    def _check_headers(self, tag: int) -> None:
        end = time.monotonic() + self.deadline_s
        for peer in range(self.world):
            while peer != self.rank and not self._heard(peer, tag):
                self._wait(peer, tag, end)

    def _heard(self, peer: int, tag: int) -> bool:
        """Whether the peer's header of this call is there; CallMismatch when it names another call."""
        at = self.layout.slot(peer) + self.layout.header(tag)
        first, second = self.wide[at // 8], self.wide[at // 8 + 1]
        if first >> 32 != tag or second >> 32 != tag:
            return False
        if (first & SENTINEL, second & SENTINEL) != self._call:
            self._report(2, peer, tag)
            raise CallMismatch(f"Rank {peer} makes another call than rank {self.rank} at call {tag}.")
        return True

    def _rearm(self, line: Line) -> None:
        if line is not Line.F16 or self.sentinel_calls < 2:
            return
        generation = (self.sentinel_calls - 2) % SENTINEL_GENERATIONS
        base = self.layout.slot(self.rank) + self.layout.sentinel_offset + generation * self.layout.sentinel_generation
        for place in range(base // 4, base // 4 + 4 * self.used[generation]):
            self.narrow[place] = SENTINEL

    def _finish(self, line: Line, lines: int, tag: int) -> None:
        self.epoch = tag
        if line is Line.F16:
            self.used[self.sentinel_calls % SENTINEL_GENERATIONS] = lines
            self.sentinel_calls += 1


def _sum(terms: list[Bits], dtype: Dtype) -> Bits:
    integer = np.uint32 if dtype is Dtype.FLOAT32 else np.uint16
    return reference.allreduce([term.view(integer) for term in terms], dtype).view(np.uint32)
