"""vLLM's custom allreduce, from vLLM itself."""

from __future__ import annotations

from ungate.probe.candidates import Candidate
from ungate.probe.candidates._custom import Custom, needs_engine

_MODULE = "vllm.distributed.device_communicators.custom_all_reduce"

CANDIDATE = Candidate(
    name="vllm-custom",
    what="vLLM's CustomAllreduce, with vLLM's own checks of the machine",
    how="vLLM does, unless --disable-custom-all-reduce is given",
    device="cuda",
    open=lambda ranks: Custom(ranks, _MODULE, "vLLM"),
    unavailable=lambda facts: needs_engine(facts, "vllm", "vllm"),
    setup_s=300.0,
)
