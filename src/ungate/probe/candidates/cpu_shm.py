"""One-shot through shared memory, written with PyTorch: a yardstick for gloo on one host.

Each rank writes its message into its slot and then the number of the call into its cell; it waits for the cells of all
peers and adds the slots in rank order in float32, so that all ranks hold the same bits. Two slots in turn: a rank
that has seen call k of every peer knows that all have read call k - 1, so a slot is written again two calls later.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path
from typing import Any

from ungate.probe.candidates import Candidate, Facts, Operation, Ranks, Unavailable

_CELL = 128  # bytes: two cache lines, which are fetched in pairs
_SPIN = 200  # looks at a cell before the processor is given away
_MEMORY = Path("/dev/shm")


class _OneShot(Operation):
    def __init__(self, ranks: Ranks) -> None:
        import torch
        import torch.distributed as dist

        self._torch, self._rank, self._world = torch, ranks.rank, ranks.world
        slot = -(-ranks.max_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        cells = -(-ranks.world * _CELL // mmap.PAGESIZE) * mmap.PAGESIZE
        size = cells + 2 * ranks.world * slot
        path = [str(_MEMORY / f"ungate-probe-{os.getpid()}")]
        problem = [_made(path[0], size) if ranks.rank == 0 else ""]
        dist.broadcast_object_list(path, 0, group=ranks.group)
        dist.broadcast_object_list(problem, 0, group=ranks.group)
        if problem[0]:
            raise Unavailable(problem[0])
        with Path(path[0]).open("r+b") as stream:
            self._map = mmap.mmap(stream.fileno(), size)
        dist.barrier(group=ranks.group)
        if ranks.rank == 0:
            Path(path[0]).unlink()  # the name is gone before anything can go wrong
        self._cells = [ctypes.c_int64.from_buffer(self._map, _CELL * rank) for rank in range(ranks.world)]
        whole = torch.frombuffer(self._map, dtype=torch.uint8)
        self._slots = [
            [whole[cells + (2 * rank + turn) * slot :][:slot] for rank in range(ranks.world)] for turn in (0, 1)
        ]
        self._call = 0

    def __call__(self, source: Any, out: Any) -> None:
        torch, size = self._torch, source.numel() * source.element_size()
        self._call += 1
        slots = [slot[:size].view(source.dtype).view(source.shape) for slot in self._slots[self._call % 2]]
        slots[self._rank].copy_(source)
        self._cells[self._rank].value = self._call
        total = None
        for rank, slot in enumerate(slots):
            self._wait(self._cells[rank])
            total = slot.to(torch.float32, copy=True) if total is None else total.add_(slot)
        out.copy_(total)

    def _wait(self, cell: Any) -> None:
        looks = 0
        while cell.value < self._call:
            looks += 1
            if looks % _SPIN == 0:
                time.sleep(0)


def _made(path: str, size: int) -> str:
    """Make the file; what went wrong as a sentence."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        return f"No file can be made in {_MEMORY}: {error.strerror}."
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as error:
        Path(path).unlink()
        return f"{_MEMORY} has no room for {size >> 20} MiB: {error.strerror}. Give the container more: --shm-size=1g"
    finally:
        os.close(handle)
    return ""


def _unavailable(facts: Facts) -> str:
    if facts.architecture not in ("x86_64", "AMD64"):
        return f"It relies on the order in which x86-64 makes stores visible, and this is {facts.architecture}."
    return "" if facts.gloo else f"PyTorch {facts.torch} of this Python was built without gloo, its control group."


CANDIDATE = Candidate(
    name="cpu-shm",
    what="one-shot through shared memory, written with PyTorch",
    how="no engine can; it shows how much of a message is gloo's own cost",
    device="cpu",
    open=_OneShot,
    unavailable=_unavailable,
)
