"""ungate-allreduce over peer access: every rank reads its peers' memory."""

from __future__ import annotations

from ungate.probe.candidates import Candidate, Facts
from ungate.probe.candidates._facts import needs_peers
from ungate.probe.candidates._ungate import Reduction, installed


def _unavailable(facts: Facts) -> str:
    return installed(facts) or needs_peers(facts)


CANDIDATE = Candidate(
    name="ungate-pull",
    what="ungate-allreduce over peer access: a rank reads its peers' memory",
    how="ungate_allreduce.all_reduce in the model's code; no engine does by itself",
    device="cuda",
    open=lambda ranks: Reduction(ranks, "pull"),
    unavailable=_unavailable,
    setup_s=300.0,
)
