"""PyTorch's one-shot allreduce on symmetric memory."""

from __future__ import annotations

from ungate.probe.candidates import Candidate
from ungate.probe.candidates._symmetric import Symmetric, needs_symmetric

CANDIDATE = Candidate(
    name="symmetric-oneshot",
    what="PyTorch's one-shot allreduce on symmetric memory, with the copies that an engine makes around it",
    how="SGLang with SGLANG_TORCH_SYMM_MEM_ONE_SHOT; elsewhere torch.ops.symm_mem in the model's code",
    device="cuda",
    open=lambda ranks: Symmetric(ranks, one_shot=True),
    unavailable=needs_symmetric,
)
