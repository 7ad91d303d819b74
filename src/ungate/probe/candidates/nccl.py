"""NCCL as ``torch.distributed`` runs it, as the environment sets it: what engines use when nothing is chosen."""

from __future__ import annotations

from ungate.probe.candidates import Candidate
from ungate.probe.candidates._facts import needs_nccl
from ungate.probe.candidates._nccl import open_nccl

CANDIDATE = Candidate(
    name="nccl",
    what="NCCL through torch.distributed, with the settings of this environment",
    how="engines do, when nothing else is chosen",
    device="cuda",
    open=open_nccl,
    unavailable=needs_nccl,
    baseline=True,
)
