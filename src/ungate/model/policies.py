"""Where an opened feature is to be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ungate.model.campaigns import Cell, Decision

__all__ = ["Place", "Policy", "PolicyRow"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a policy was measured: ranks of tensor parallelism, peer access between the GPUs, their names.

    None and empty are *not known*; a policy with an unknown part holds for that part of nothing else.
    """

    tensor_parallel: int | None = None
    peer_access: bool | None = None
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One measured cell of a policy.

    ``decision`` is that of the primary metric, and the feature is used where it is keep. ``ratio`` is candidate over
    baseline (above 1 is faster) with its interval. ``prefill`` and ``decode`` are the decisions of the two phases
    alone (time to the first token, time per output token), None where they were not judged.
    """

    cell: Cell
    decision: Decision
    reason: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    prefill: Decision | None = None
    decode: Decision | None = None

    @property
    def used(self) -> bool:
        return self.decision is Decision.KEEP


@dataclass(frozen=True, slots=True)
class Policy:
    """Where to use an opened path, and everything it was measured with: it holds for nothing else.

    ``packages`` maps distributions to versions, ``series`` is the digest of the edits, ``arguments`` and
    ``environment`` switch the feature on in the server.
    """

    feature: str
    target: str
    rows: tuple[PolicyRow, ...]
    place: Place = field(default_factory=Place)
    packages: Mapping[str, str] = field(default_factory=dict)
    series: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    measured: str = ""  # ISO 8601, UTC

    @property
    def everywhere(self) -> bool:
        """Every measured cell uses it: then the gates may be opened without a restriction."""
        return bool(self.rows) and all(row.used for row in self.rows)

    @property
    def nowhere(self) -> bool:
        return not any(row.used for row in self.rows)

    def spans(self) -> tuple[tuple[int, int], ...]:
        """The ranges of requests in flight, both ends measured and inclusive, in which every cell uses it.

        A decode step has one row (token) a request in flight, so these are the row counts of a decode step as well.
        A cell that is not used ends the range at the last one before it that is: between two measured
        points nothing is known, and what is not known is not used.
        """
        by_count: dict[int, bool] = {}
        for row in self.rows:
            by_count[row.cell.concurrency] = by_count.get(row.cell.concurrency, True) and row.used
        found: list[tuple[int, int]] = []
        open_since: int | None = None
        last = 0
        for count in sorted(by_count):
            if by_count[count]:
                open_since = count if open_since is None else open_since
                last = count
            elif open_since is not None:
                found.append((open_since, last))
                open_since = None
        if open_since is not None:
            found.append((open_since, last))
        return tuple(found)
