"""A barrier of the hosts' side through the shared segment, with a deadline and a digest that must agree."""

from __future__ import annotations

import time

from .errors import CallMismatch, PeerTimeout
from .layout import CELL_BYTES, MEETING_OFFSET, REPORT_OFFSET
from .memory import Segment

__all__ = ["Meeting"]


class Meeting:
    """One 8-byte cell a rank and parity: sequence number in the high half, digest in the low half.

    Only its owner writes a cell. Two parities are enough: nobody is more than one meeting ahead.
    """

    def __init__(self, segment: Segment, rank: int, world: int) -> None:
        self.segment = segment
        self.rank = rank
        self.world = world
        self.count = 0

    def _cell(self, rank: int, parity: int) -> int:
        return MEETING_OFFSET + CELL_BYTES * rank + 8 * parity

    def clear(self) -> None:
        """Start again at zero; only between two barriers of another kind."""
        self.count = 0
        for parity in (0, 1):
            self.segment.word(self._cell(self.rank, parity)).value = 0

    def ahead(self, rank: int) -> bool:
        """Whether a peer already waits at the meeting after the last one of this rank."""
        after = self.count + 1
        return self.segment.word(self._cell(rank, after & 1)).value >> 32 == after

    def meet(self, digest: int, timeout_s: float, what: str) -> None:
        """Wait for all ranks at this meeting with the same 32-bit ``digest``.

        Raises CallMismatch when a peer brings another digest and PeerTimeout after ``timeout_s`` seconds.
        """
        self.count += 1
        parity = self.count & 1
        self.segment.word(self._cell(self.rank, parity)).value = (self.count << 32) | (digest & 0xFFFFFFFF)
        deadline = time.monotonic() + timeout_s
        pause = 0.0
        for rank in range(self.world):
            cell = self.segment.word(self._cell(rank, parity))
            while (value := cell.value) >> 32 != self.count:
                reports = [self.segment.word(REPORT_OFFSET + CELL_BYTES * other).value for other in range(self.world)]
                if any(report & 0xFF == 1 and report >> 8 & 0xFF == self.rank for report in reports):
                    raise CallMismatch(
                        f"Another rank waited in a call that it has made before for rank {self.rank}, which came to "
                        f"{what}: the ranks make different calls. Call rebuild() on all ranks."
                    )
                if any(reports):
                    raise PeerTimeout(
                        f"Another rank gave up while rank {self.rank} waited for {what}: the ranks make different "
                        "calls, or one has died. Call rebuild() on all ranks, or make a new workspace."
                    )
                if time.monotonic() > deadline:
                    raise PeerTimeout(
                        f"Rank {rank} did not come to {what} within {timeout_s:g} s. It is dead, hung, or makes other "
                        "calls than this rank. See its log, then build a new workspace on all ranks."
                    )
                time.sleep(pause)
                pause = min(pause + 0.0001, 0.005)
            if value & 0xFFFFFFFF != digest & 0xFFFFFFFF:
                raise CallMismatch(
                    f"Rank {rank} came to {what} with another shape, dtype, option or kernel source than rank "
                    f"{self.rank}. All ranks must make the same calls in the same order."
                )
