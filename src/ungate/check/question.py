"""What a rule is asked: a chain, a target, and the gates that would be opened."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ungate.host.facts import HostFacts
from ungate.host.packages import Package
from ungate.model import Chain, Gate, Hop, KnownMatch, Status, Target

__all__ = ["Question"]


@dataclass(frozen=True)
class Question:
    """``opened`` are ids of gates of the chain; all others stay as they are."""

    chain: Chain
    target: Target
    packages: tuple[Package, ...]
    opened: frozenset[str]
    facts: HostFacts | None
    needs_peer_access: bool
    instead: str
    known: tuple[KnownMatch, ...] = ()

    @property
    def hops(self) -> tuple[Hop, ...]:
        """Every hop, those of co-compiled units included."""
        return (*self.chain.hops, *self.chain.apart)

    def closed(self, gate: Gate) -> bool:
        """Whether the gate would still hold the target back for certain."""
        return gate.id not in self.opened and gate.status(self.target) is Status.CLOSED

    def path(self, file: str) -> Path | None:
        """Where a file of the chain lies; None when it belongs to none of the packages."""
        for package in self.packages:
            if file.split("/", 1)[0] in package.tops and (package.root / file).is_file():
                return package.root / file
        return None
