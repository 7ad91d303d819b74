"""SGLang's custom allreduce, from SGLang itself."""

from __future__ import annotations

from ungate.probe.candidates import Candidate
from ungate.probe.candidates._custom import Custom, needs_engine

_MODULE = "sglang.srt.distributed.device_communicators.custom_all_reduce"

CANDIDATE = Candidate(
    name="sglang-custom",
    what="SGLang's CustomAllreduce, with SGLang's own checks of the machine",
    how="SGLang does, unless --disable-custom-all-reduce is given",
    device="cuda",
    open=lambda ranks: Custom(ranks, _MODULE, "SGLang"),
    unavailable=lambda facts: needs_engine(facts, "sglang", "sglang"),
    setup_s=300.0,
)
