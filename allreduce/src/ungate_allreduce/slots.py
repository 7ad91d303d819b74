"""Transports as pointer tables: where a rank writes its slot and where it reads its peers'.

``host``  one slot a rank in shared host memory: written once, read by all. Needs no path between the GPUs.
``pull``  one slot a rank in its own device memory, read by peers.   Needs peer access.
``push``  a copy of each rank's slot in every peer's device memory, polled locally. Needs peer access.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .driver import driver
from .errors import DriverError, Unsupported
from .host import Group
from .layout import Layout

__all__ = ["TRANSPORTS", "Slots", "host_slots", "peer_slots"]

TRANSPORTS = ("host", "pull", "push")


@dataclass
class Slots:
    """Device addresses: ``source[r]`` is rank r's slot as this rank reads it, ``target`` where it writes."""

    transport: str
    source: tuple[int, ...]
    target: tuple[int, ...]
    owned: int = 0
    owned_bytes: int = 0
    opened: list[int] = field(default_factory=list)

    def close(self) -> None:
        """Unmap and free device memory."""
        for pointer in self.opened:
            driver().close(pointer)
        self.opened = []
        if self.owned:
            driver().free(self.owned)
            self.owned = 0


def host_slots(layout: Layout, alias: int) -> Slots:
    """Slots in the shared segment, whose device alias is ``alias``."""
    source = tuple(alias + layout.slot(rank) for rank in range(layout.world))
    return Slots("host", source, source)


def peer_slots(layout: Layout, group: Group, transport: str) -> Slots:
    """Slots in device memory, exchanged as IPC handles.

    Raises Unsupported when a peer cannot be opened. That it can be opened proves nothing about the data: the
    caller runs the numeric self-test before use.
    """
    copies = layout.world if transport == "push" else 1
    size = copies * layout.slot_bytes
    memory = driver().allocate(size)
    driver().fill(memory, 0, size // 4)
    handles = group.gather(driver().export(memory))
    base: list[int] = []
    opened: list[int] = []
    problem = ""
    for rank, handle in enumerate(handles):
        if rank == group.rank:
            base.append(memory)
            continue
        try:
            base.append(driver().open(handle))
            opened.append(base[-1])
        except DriverError as error:
            problem = f"Rank {group.rank} cannot open the device memory of rank {rank}: {error}"
            break
    problems = [text for text in group.gather(problem) if text]
    slots = Slots(transport, (), (), memory, size, opened)
    if problems:
        slots.close()
        raise Unsupported(f"{problems[0]} Use transport='host'.")
    if transport == "pull":
        slots.source = tuple(base)
        slots.target = tuple(base)
    else:
        slots.source = tuple(memory + rank * layout.slot_bytes for rank in range(layout.world))
        slots.target = tuple(pointer + group.rank * layout.slot_bytes for pointer in base)
    return slots
