"""Collective proofs that a path moves data as a format needs it, before anything relies on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import Unsupported
from .primitives import launch

if TYPE_CHECKING:
    from .workspace import Workspace

__all__ = ["Tears", "peer_test", "tear_test"]

TEAR_LINES = 256
ENOUGH_CHANGES = 10_000_000


@dataclass(frozen=True)
class Tears:
    """Changes of 16-byte lines that were observed, and those of which only a part had arrived."""

    changes: int
    torn: int

    @property
    def whole(self) -> bool:
        """Whether 16-byte stores may be relied on here: 10^7 observed changes and none torn."""
        return self.torn == 0 and self.changes >= ENOUGH_CHANGES


def tear_test(workspace: Workspace, seconds: float = 1.0, blocks: int = 16) -> Tears:
    """Collective. Every rank writes lines of four equal words and watches a peer's; all slots are cleared afterwards.

    F12 is used only where :attr:`Tears.whole`: PTX promises nothing about 16 bytes at once, so this is a measurement.
    """
    import torch

    counts = torch.zeros(2, dtype=torch.int64, device="cuda")
    offset = workspace.layout.tagged_offset
    peer = (workspace.rank + 1) % workspace.world
    target = workspace.slots.target[peer if workspace.slots.transport == "push" else workspace.rank]
    source = workspace.slots.source[(workspace.rank - 1) % workspace.world]
    if workspace.slots.transport != "push":
        source = workspace.slots.source[peer]
    workspace.group.gather(None)
    launch(
        "tear",
        a=target + offset,
        b=source + offset,
        sink=counts.data_ptr(),
        count=TEAR_LINES,
        limit_ns=int(seconds * 1e9),
        grid=1 + blocks,
        block=256,
    )
    torch.cuda.synchronize()
    everyone = workspace.group.gather(tuple(counts.tolist()))
    workspace.rebuild()
    return Tears(min(changes for changes, _ in everyone), sum(torn for _, torn in everyone))


def peer_test(workspace: Workspace, rounds: int = 5) -> None:
    """Collective. Reduce messages of many blocks in both directions at once and compare every bit with the reference.

    A driver may grant peer access and deliver wrong data without an error; such a path raises Unsupported here.
    """
    from .plan import Choice
    from .tuner import Case, screen
    from .variant import Dtype, Line

    size = min(256 << 10, workspace.layout.max_bytes)
    wrong = 0
    for line in (Line.LL8, Line.F16):
        for turn in range(rounds):
            case = Case(Dtype.BFLOAT16, size // 2 - 8 * turn)
            wrong += screen(workspace, case, Choice(line=int(line), vec=2), kinds=("normal", "mixed"), seed=turn)
    if wrong:
        raise Unsupported(
            f"Peer access between these GPUs delivers wrong data ({wrong} elements in the self-test), without any "
            "error of the driver. Use transport='host'."
        )
