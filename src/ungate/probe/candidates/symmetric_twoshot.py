"""PyTorch's two-shot allreduce on symmetric memory."""

from __future__ import annotations

from ungate.probe.candidates import Candidate
from ungate.probe.candidates._symmetric import Symmetric, needs_symmetric

CANDIDATE = Candidate(
    name="symmetric-twoshot",
    what="PyTorch's two-shot allreduce on symmetric memory, with the copies that an engine makes around it",
    how="vLLM's VLLM_ALLREDUCE_USE_SYMM_MEM, on machines with multicast only",
    device="cuda",
    open=lambda ranks: Symmetric(ranks, one_shot=False),
    unavailable=needs_symmetric,
)
