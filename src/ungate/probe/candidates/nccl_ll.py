"""NCCL with its low-latency protocol forced: a fair baseline for small messages."""

from __future__ import annotations

from ungate.probe.candidates import Candidate, Facts
from ungate.probe.candidates._facts import needs_nccl
from ungate.probe.candidates._nccl import open_nccl


def _unavailable(facts: Facts) -> str:
    if chosen := facts.settings.get("NCCL_PROTO"):
        return f"NCCL_PROTO is set to {chosen} in this environment, so the candidate nccl says how that does."
    return needs_nccl(facts)


CANDIDATE = Candidate(
    name="nccl-ll",
    what="NCCL with the LL protocol forced",
    how="NCCL_PROTO=LL in the environment of the server; it holds for every message size",
    device="cuda",
    open=open_nccl,
    unavailable=_unavailable,
    environment={"NCCL_PROTO": "LL"},
)
