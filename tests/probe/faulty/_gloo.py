"""A right allreduce that the faulty candidates of this folder spoil."""

from __future__ import annotations

from typing import Any

from ungate.probe.candidates import Candidate, Operation, Ranks


class Right(Operation):
    """gloo, out of place."""

    def __init__(self, ranks: Ranks) -> None:
        import torch.distributed as dist

        self.ranks, self.dist, self.calls = ranks, dist, 0

    def __call__(self, source: Any, out: Any) -> None:
        self.calls += 1
        out.copy_(source)
        self.dist.all_reduce(out, group=self.ranks.group)


def faulty(name: str, kind: type[Operation]) -> Candidate:
    return Candidate(
        name=name, what="a fault", how="nobody does", device="cpu", open=kind, unavailable=lambda facts: ""
    )
