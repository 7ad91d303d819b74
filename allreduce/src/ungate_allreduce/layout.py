"""Where things are: the slot a rank writes, and the segment that holds all slots of a host-staged world."""

from __future__ import annotations

from dataclasses import dataclass

from .variant import MAX_WORLD, Line, up

__all__ = [
    "CELL_BYTES",
    "CONTROL_BYTES",
    "HEADER_LINES",
    "MEETING_OFFSET",
    "REPORT_OFFSET",
    "SENTINEL_GENERATIONS",
    "Layout",
]

CELL_BYTES = 64
"""Distance between words of different writers, so that no two share a cache line."""
REPORT_OFFSET = 0
MEETING_OFFSET = CELL_BYTES * MAX_WORLD
CONTROL_BYTES = 4096
HEADER_LINES = 32
"""Copies of the header a generation, 64 bytes apart: many blocks reading one host address queue up."""
HEADER_BYTES = 4096
TAGGED_GENERATIONS = 2
"""A rank is at most one call ahead of a peer, and a tag tells calls apart: two generations."""
SENTINEL_GENERATIONS = 5
"""Read by a peer that is one call behind, written now, re-armed now, re-armed and fenced now, ready for the next."""


@dataclass(frozen=True)
class Layout:
    """Sizes and offsets in bytes, for messages of up to ``max_bytes`` a rank.

    A slot is a header page, the tagged area (LL8 and F12) and the sentinel area (F16). A call writes each line of its
    generation once, with two shots too: there a rank's own share of the lines holds the sum, the rest what it adds.
    """

    world: int
    max_bytes: int

    @property
    def tagged_lines(self) -> int:
        """Lines of one generation of the tagged area, sized for LL8 (8 bytes of data a line)."""
        return up(self.max_bytes, 8)

    @property
    def sentinel_lines(self) -> int:
        """Lines of one generation of the sentinel area (16 bytes of data a line)."""
        return up(self.max_bytes, 16)

    @property
    def tagged_generation(self) -> int:
        """Bytes of one generation of the tagged area."""
        return 16 * self.tagged_lines

    @property
    def tagged_offset(self) -> int:
        """Start of the tagged area in the slot."""
        return HEADER_BYTES

    @property
    def sentinel_generation(self) -> int:
        """Bytes of one generation of the sentinel area."""
        return 16 * self.sentinel_lines

    @property
    def sentinel_offset(self) -> int:
        """Start of the sentinel area in the slot."""
        return self.tagged_offset + TAGGED_GENERATIONS * self.tagged_generation

    @property
    def slot_bytes(self) -> int:
        """Bytes of one rank's slot, whole 4 KiB pages."""
        return up(self.sentinel_offset + SENTINEL_GENERATIONS * self.sentinel_generation, 4096) * 4096

    @property
    def segment_bytes(self) -> int:
        """Bytes of the shared segment: control page and all slots."""
        return CONTROL_BYTES + self.world * self.slot_bytes

    def slot(self, rank: int) -> int:
        """Offset of a rank's slot in the segment."""
        return CONTROL_BYTES + rank * self.slot_bytes

    def header(self, tag: int) -> int:
        """Offset in the slot of the first header line of a call."""
        return (tag & 1) * HEADER_LINES * CELL_BYTES

    def capacity(self, line: Line) -> int:
        """Lines a message may have in this format."""
        return self.sentinel_lines if line is Line.F16 else self.tagged_lines
