"""ungate-allreduce through host memory: it needs no access between the GPUs."""

from __future__ import annotations

from ungate.probe.candidates import Candidate
from ungate.probe.candidates._ungate import Reduction, installed

CANDIDATE = Candidate(
    name="ungate-host",
    what="ungate-allreduce through host memory, the kernel that its formula chooses",
    how="ungate_allreduce.all_reduce in the model's code; no engine does by itself",
    device="cuda",
    open=lambda ranks: Reduction(ranks, "host"),
    unavailable=installed,
    setup_s=300.0,
)
