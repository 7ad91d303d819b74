"""FlashInfer's TRT-LLM allreduce, two-shot, as SGLang and vLLM call it for the fusion with the norm."""

from __future__ import annotations

from ungate.probe.candidates import Candidate
from ungate.probe.candidates._flashinfer import COMPILES_S, Fusion, needs_flashinfer

CANDIDATE = Candidate(
    name="flashinfer-twoshot",
    what="FlashInfer's trtllm_allreduce_fusion, two-shot, reduction only",
    how="SGLang --enable-flashinfer-allreduce-fusion; see: ungate why flashinfer-allreduce-fusion",
    device="cuda",
    open=lambda ranks: Fusion(ranks, one_shot=False),
    unavailable=needs_flashinfer,
    setup_s=COMPILES_S,
)
