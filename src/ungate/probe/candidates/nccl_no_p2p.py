"""NCCL without peer access: what cards that cannot reach each other get, on a machine whose cards can."""

from __future__ import annotations

from ungate.probe.candidates import Candidate, Facts
from ungate.probe.candidates._facts import needs_nccl
from ungate.probe.candidates._nccl import open_nccl


def _unavailable(facts: Facts) -> str:
    if facts.settings.get("NCCL_P2P_DISABLE", "0") not in ("", "0"):
        return "NCCL_P2P_DISABLE is set in this environment, so the candidate nccl runs without peer access already."
    if facts.peer is False:
        return "The GPUs have no access to each other's memory, so the candidate nccl runs without it already."
    return needs_nccl(facts)


CANDIDATE = Candidate(
    name="nccl-no-p2p",
    what="NCCL with peer access disabled: its shared-memory transport",
    how="NCCL_P2P_DISABLE=1 in the environment of the server",
    device="cuda",
    open=open_nccl,
    unavailable=_unavailable,
    environment={"NCCL_P2P_DISABLE": "1"},
)
