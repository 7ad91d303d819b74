"""The workspace: one rank's share of the memory, counters and kernels that a group of ranks reduces with."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from . import __version__
from .driver import driver
from .errors import AllreduceError, CallMismatch, PeerTimeout, Unsupported
from .host import Group, RankFacts, agree, boot_id, group_of, require_linux, source_digest
from .launch import STATE_BUDGET_OFFSET, STATE_BYTES, Own, fill, launch_type
from .layout import CELL_BYTES, REPORT_OFFSET, Layout
from .loaded import Kernel, load
from .meeting import Meeting
from .memory import Segment, numa_node
from .plan import Choice, Table, seed
from .slots import TRANSPORTS, Slots, host_slots, peer_slots
from .variant import MAX_WORLD, Dtype, Variant

__all__ = ["Workspace", "find"]

PARTIAL_BYTES = 1 << 20
_LIVE: weakref.WeakValueDictionary[int, Workspace] = weakref.WeakValueDictionary()
_NEXT = iter(range(1, 1 << 62))


def find(handle: int) -> Workspace:
    """The workspace with this handle; AllreduceError when it was closed or belongs to another process."""
    workspace = _LIVE.get(handle)
    if workspace is None:
        raise AllreduceError(f"There is no workspace {handle} in this process: it was closed, or made before a fork.")
    return workspace


class Workspace:
    """Memory, counters and kernels of one rank. Made by :meth:`create`, collectively.

    Calls and graph replays of one workspace have to be ordered, as those of an NCCL communicator have: use one
    stream, or order the streams yourself. Several workspaces are independent. A forked child cannot use its
    parent's workspace.
    """

    def __init__(self, group: Group, layout: Layout, segment: Segment, slots: Slots, deadline_s: float) -> None:
        import torch

        self.group = group
        self.rank, self.world = group.rank, group.world
        self.layout = layout
        self.segment = segment
        self.slots = slots
        self.device = torch.device("cuda", torch.cuda.current_device())
        major, minor = torch.cuda.get_device_capability(self.device)
        self.arch = 10 * major + minor
        self.multiprocessors: int = torch.cuda.get_device_properties(self.device).multi_processor_count
        self.meeting = Meeting(segment, self.rank, self.world)
        self.deadline_s = deadline_s
        self.handle = next(_NEXT)
        self.reports = 0
        self.table: Table | None = None
        self.fallback: Any = None
        self._state = torch.zeros(STATE_BYTES, dtype=torch.uint8, device=self.device)
        self._partials = torch.zeros(PARTIAL_BYTES, dtype=torch.uint8, device=self.device)
        self._kernels: dict[Variant, Kernel] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._stream: Any = None
        _LIVE[self.handle] = self

    @classmethod
    def create(
        cls,
        group: Any = None,
        *,
        max_bytes: int = 512 << 10,
        deadline_s: float = 1.0,
        transport: str = "host",
        table: Table | None = None,
        fallback: Any = None,
        shared_device: bool = False,
    ) -> Workspace:
        """Collective: every rank of ``group`` (a torch process group, or a :class:`Group`) makes its share.

        ``max_bytes`` is the largest reduced tensor; ``deadline_s`` how long a kernel waits for its peers before it
        gives up. ``table`` holds measured choices (the formula's are used without one); ``fallback`` is a torch process
        group whose ``all_reduce`` takes what the table leaves to it. The current CUDA device is used. A peer path
        (``transport`` push or pull) is proven with data first. Raises Unsupported (nothing left behind) or
        CallMismatch.
        """
        import torch

        require_linux()
        if transport not in TRANSPORTS:
            raise Unsupported(f"There is no transport {transport!r}; there are {', '.join(TRANSPORTS)}.")
        peers = group_of(group)
        if not 2 <= peers.world <= MAX_WORLD:
            raise Unsupported(f"A workspace takes 2 to {MAX_WORLD} ranks; this group has {peers.world}.")
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        ordinal = torch.cuda.current_device()
        pci = f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
        facts = RankFacts(
            rank=peers.rank,
            boot=boot_id(),
            sources=source_digest(),
            version=__version__,
            max_bytes=max_bytes,
            transport=transport,
            table=hashlib.sha256((table.dump() if table else "").encode()).hexdigest()[:16],
            device=str(properties.uuid),
            pci=pci,
            arch=10 * properties.major + properties.minor,
            node=numa_node(pci),
        )
        everyone: list[RankFacts] = peers.gather(facts)
        agree(everyone, shared_device=shared_device)
        if not driver().attribute(ordinal, "can_map_host_memory"):
            raise Unsupported("This GPU cannot map host memory. Keep NCCL.")
        layout = Layout(peers.world, max_bytes)
        segment = cls._share(peers, layout, everyone)
        alias = driver().register(segment.address, segment.size)
        slots = host_slots(layout, alias) if transport == "host" else peer_slots(layout, peers, transport)
        self = cls(peers, layout, segment, slots, deadline_s)
        self.reports = alias + REPORT_OFFSET
        self.table, self.fallback = table, fallback
        self._clear()
        peers.gather(None)
        if transport != "host":
            from .selftest import peer_test

            try:
                peer_test(self)
            except AllreduceError:
                self.close()
                raise
        return self

    @staticmethod
    def _share(peers: Group, layout: Layout, everyone: list[RankFacts]) -> Segment:
        segment: Segment | None = None
        message = ""
        if peers.rank == 0:
            regions = [(layout.slot(fact.rank), layout.slot_bytes, fact.node) for fact in everyone]
            try:
                segment = Segment.create(layout.segment_bytes, regions)
            except Unsupported as error:
                message = str(error)
        path, message = peers.gather((segment.path if segment else "", message))[0]
        if message:
            raise Unsupported(message)
        problem = ""
        if segment is None:
            try:
                segment = Segment.open(path, layout.segment_bytes)
            except Unsupported as error:
                problem = str(error)
        problems = [text for text in peers.gather(problem) if text]
        if segment is not None and peers.rank == 0:
            segment.forget_name()
        if problems or segment is None:
            if segment is not None:
                segment.close()
            raise Unsupported(problems[0])
        return segment

    def _clear(self) -> None:
        """Put everything this rank owns into the state before the first call."""
        self.segment.word(REPORT_OFFSET + CELL_BYTES * self.rank).value = 0
        self.meeting.clear()
        start = self.layout.sentinel_offset
        if self.slots.transport == "host":
            slot = self.layout.slot(self.rank)
            self.segment.fill(slot, start, 0)
            self.segment.fill(slot + start, self.layout.slot_bytes - start, 0xFF)
        else:
            for copy in range(self.slots.owned_bytes // self.layout.slot_bytes):
                base = self.slots.owned + copy * self.layout.slot_bytes
                driver().fill(base, 0, start // 4)
                driver().fill(base + start, 0xFFFFFFFF, (self.layout.slot_bytes - start) // 4)
        self._state.zero_()
        self._partials.zero_()
        self.set_deadline(self.deadline_s)

    def set_deadline(self, seconds: float) -> None:
        """How long a kernel waits for a peer, also in graphs captured before. Waits for the device."""
        import torch

        self.deadline_s = seconds
        budget = torch.tensor([int(seconds * 1e9)], dtype=torch.int64).view(torch.uint8)
        self._state[STATE_BUDGET_OFFSET : STATE_BUDGET_OFFSET + 8].copy_(budget)
        torch.cuda.synchronize(self.device)

    def capacity(self, variant: Variant, rows: int) -> bool:
        """Whether a message fits into the slot; a kernel of one rank alone uses no slot."""
        return variant.world == 1 or (
            variant.lines(rows) <= self.layout.capacity(variant.line)
            and rows * variant.partials_a_row * 8 <= PARTIAL_BYTES
        )

    def kernel(self, variant: Variant) -> Kernel:
        """A loaded kernel; the first use compiles and meets the other ranks, so it is collective.

        Raises AllreduceError inside a stream capture: prepare or warm up before capturing.
        """
        found = self._kernels.get(variant)
        if found is not None:
            return found
        import torch

        if torch.cuda.is_current_stream_capturing():
            raise AllreduceError(
                f"The kernel for {variant} is not loaded and cannot be loaded while a stream is captured. "
                "Run the operation once with this shape, or call Workspace.prepare, before the capture."
            )
        with self._lock:
            loaded = load(variant, self.arch, self.multiprocessors)
            if variant.world > 1:
                self.meeting.meet(variant.identity(), max(60.0, self.deadline_s), "the first use of a kernel")
            self._kernels[variant] = loaded
        return loaded

    def prepare(self, variants: Iterable[Variant]) -> None:
        """Collective: compile and load kernels, in the same order on all ranks."""
        for variant in variants:
            self.kernel(variant)

    def launch(
        self,
        variant: Variant,
        rows: int,
        addresses: dict[str, int],
        *,
        epsilon: float = 0.0,
        grid: int | None = None,
    ) -> None:
        """Enqueue one call on torch's current stream; never waits for the device.

        ``addresses`` are device addresses by the names of Params. ``rows`` is elements for plain allreduce;
        with no rows nothing is enqueued, on any rank.
        """
        import torch

        if os.getpid() != self._pid:
            raise AllreduceError("This workspace was made before a fork; make a new one in the child (use spawn).")
        self.check()
        if rows == 0:
            return
        if not self.capacity(variant, rows):
            raise Unsupported(
                f"A message of {rows} rows does not fit: the workspace was made for {self.layout.max_bytes} bytes."
            )
        kernel = self.kernel(variant)
        stream = torch.cuda.current_stream(self.device)
        if not torch.cuda.is_current_stream_capturing():
            if self._stream is not None and self._stream != stream:
                stream.wait_stream(self._stream)
            self._stream = stream
        argument: Any = launch_type(variant.world, variant.targets, 1)()
        fill(argument.rank[0], self.layout, self.slots, self._own(), variant, rows, addresses, epsilon)
        driver().launch(
            kernel.function,
            argument,
            grid=(kernel.grid(rows, grid), 1),
            block=variant.block,
            stream=stream.cuda_stream,
            pdl=kernel.pdl,
        )

    def _own(self) -> Own:
        return Own(self.rank, self._state.data_ptr(), self._partials.data_ptr(), self.reports)

    def check(self) -> None:
        """Raise what a kernel reported, without waiting for the device: one read of host memory.

        A graph replay raises nothing by itself: call this after synchronising with its results.
        """
        word = self.segment.word(REPORT_OFFSET + CELL_BYTES * self.rank).value
        if not word:
            return
        reason, peer, call = word & 0xFF, (word >> 8) & 0xFF, word >> 32
        again = "Outputs since then are NaN. Call rebuild() on all ranks, or make a new workspace if a rank has died."
        if reason == 2:
            raise CallMismatch(
                f"Rank {peer} makes another call than rank {self.rank} at call {call}{self._there(peer, call)}. {again}"
            )
        if reason == 3:
            raise PeerTimeout(f"Rank {peer} gave up before or in call {call}, so rank {self.rank} did too. {again}")
        if reason == 4:
            raise PeerTimeout(
                f"A block of rank {self.rank} itself did not arrive within {self.deadline_s:g} s at call {call}. "
                f"{again}"
            )
        if self.meeting.ahead(peer):
            raise CallMismatch(
                f"Rank {peer} came to the first use of a kernel that rank {self.rank} does not call at call {call}: "
                f"the ranks make different calls (dtype, hidden size or options). {again}"
            )
        raise PeerTimeout(
            f"Rank {peer} did not arrive at call {call} of rank {self.rank} within {self.deadline_s:g} s: it is dead, "
            f"hung or makes other calls. {again}"
        )

    def _there(self, peer: int, call: int) -> str:
        if self.slots.transport != "host":
            return ""
        here, there = (
            self.segment.word(self.layout.slot(rank) + self.layout.header(call) + 8).value & 0xFFFFFFFF
            for rank in (self.rank, peer)
        )
        same = "the same number of" if here == there else f"{there} there, {here} here:"
        return f" ({same} rows or elements{'; dtype, hidden size or options differ' if here == there else ''})"

    def rebuild(self) -> None:
        """Collective, after an error on a workspace whose ranks all live: as new, at the same addresses.

        Graphs captured before stay valid.
        """
        import torch

        torch.cuda.synchronize(self.device)
        self.group.gather(None)
        self._clear()
        self.group.gather(None)

    def close(self) -> None:
        """Free this rank's share. Waits for its kernels; peers must not call again."""
        import torch

        if not self.segment.address:
            return
        _LIVE.pop(self.handle, None)
        torch.cuda.synchronize(self.device)
        self.slots.close()
        driver().unregister(self.segment.address)
        self.segment.close()

    def choose(self, dtype: Dtype, pattern: str, size: int) -> Choice:
        """The table's or the formula's choice for a message of ``size`` bytes."""
        return self.table.choose(self.world, dtype, pattern, size) if self.table else seed(self.world, size)

    def seed(self, size: int) -> Choice:
        """The formula's choice where there is no NCCL to keep."""
        return seed(self.world, size, nccl_from=None)

    def reduce_by_fallback(self, tensor: Any) -> None:
        """Reduce in place with the fallback group's own allreduce."""
        import torch.distributed as dist

        dist.all_reduce(tensor, group=self.fallback)
