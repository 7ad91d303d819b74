"""Facts of this host and rank, and the agreement of all ranks on them before anything is shared."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .compile import digest_sources
from .errors import CallMismatch, Unsupported

__all__ = ["Group", "RankFacts", "TorchGroup", "agree", "group_of", "require_linux"]


class Group(Protocol):
    """What the control plane needs of a process group: who am I, and everybody's object."""

    @property
    def rank(self) -> int:
        """This rank."""
        ...

    @property
    def world(self) -> int:
        """Number of ranks."""
        ...

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, in rank order; also a barrier."""
        ...


class TorchGroup:
    """Any ``torch.distributed`` process group; gloo is enough. None means the default group."""

    def __init__(self, group: Any = None) -> None:
        import torch.distributed as dist

        if not dist.is_initialized():
            raise Unsupported(
                "torch.distributed is not initialised. Call torch.distributed.init_process_group('gloo') first."
            )
        self._dist = dist
        self.group = group
        self.rank: int = dist.get_rank(group)
        self.world: int = dist.get_world_size(group)

    def gather(self, value: Any) -> list[Any]:
        """All ranks' values through ``all_gather_object``."""
        out: list[Any] = [None] * self.world
        self._dist.all_gather_object(out, value, group=self.group)
        return out


def group_of(group: Any) -> Group:
    """A torch process group (None: the default one) as a :class:`Group`; any other object is one already.

    A torch process group has a ``gather`` of its own, which takes tensors.
    """
    import torch.distributed as dist

    return TorchGroup(group) if group is None or isinstance(group, dist.ProcessGroup) else group


@dataclass(frozen=True)
class RankFacts:
    """What a rank tells the others. ``must_equal`` lists what may not differ."""

    rank: int
    boot: str
    sources: str
    version: str
    max_bytes: int
    transport: str
    table: str
    device: str
    pci: str
    arch: int
    node: int | None

    must_equal = ("boot", "sources", "version", "max_bytes", "transport", "table")


def boot_id() -> str:
    """The kernel's boot id: the same in all containers of one host."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def source_digest() -> str:
    """Digest of the kernel sources in use."""
    return digest_sources()[:16]


def require_linux() -> None:
    """Raise Unsupported on Windows, macOS and WSL2."""
    if platform.system() != "Linux":
        raise Unsupported(f"ungate-allreduce runs on Linux only; this is {platform.system()}. Keep NCCL here.")
    if "microsoft" in platform.release().lower():
        raise Unsupported(
            "ungate-allreduce does not run under WSL2: its driver does not map host memory for polling. Keep NCCL here."
        )


WORDS = {
    "boot": "runs on another host: all ranks of a workspace must share one host's memory",
    "sources": "has other kernel sources: install the same version of ungate-allreduce for all ranks",
    "version": "has another version of ungate-allreduce: install the same one for all ranks",
    "max_bytes": "asked for another max_bytes",
    "transport": "asked for another transport",
    "table": "has another tuning table: load the same file on all ranks",
}


def agree(facts: Sequence[RankFacts], *, shared_device: bool) -> None:
    """Raise CallMismatch or Unsupported, naming the rank, unless all ranks can form one workspace."""
    first = facts[0]
    for other in facts[1:]:
        for name in RankFacts.must_equal:
            mine, theirs = getattr(first, name), getattr(other, name)
            if mine != theirs:
                raise CallMismatch(f"Rank {other.rank} {WORDS[name]} ({theirs} there, {mine} on rank {first.rank}).")
    devices: dict[str, int] = {}
    for fact in facts:
        if fact.device in devices and not shared_device:
            raise Unsupported(
                f"Ranks {devices[fact.device]} and {fact.rank} are on the same GPU ({fact.device}). Its kernels would "
                "wait for each other in turns of milliseconds. Give each rank a GPU of its own."
            )
        devices[fact.device] = fact.rank
