"""gloo through ``torch.distributed``: what engines for the CPU use when nothing is chosen."""

from __future__ import annotations

from typing import Any

from ungate.probe.candidates import Candidate, Facts, Operation, Ranks


class _AllReduce(Operation):
    in_place = True

    def __init__(self, ranks: Ranks) -> None:
        import torch.distributed as dist

        self._dist = dist
        self._group = dist.new_group(backend="gloo")

    def __call__(self, source: Any, out: Any) -> None:
        self._dist.all_reduce(source, group=self._group)

    def close(self) -> None:
        self._dist.destroy_process_group(self._group)


def _unavailable(facts: Facts) -> str:
    return "" if facts.gloo else f"PyTorch {facts.torch} of this Python was built without gloo."


CANDIDATE = Candidate(
    name="gloo",
    what="gloo through torch.distributed, on tensors in host memory",
    how="engines on the CPU do, when nothing else is chosen",
    device="cpu",
    open=_AllReduce,
    unavailable=_unavailable,
    baseline=True,
)
