"""May it be opened here? One rule a reason; a rule reads code and host facts and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ungate.check.question import Question
from ungate.check.rules import rules
from ungate.host.facts import HostFacts
from ungate.host.packages import Package
from ungate.model import Chain, Finding, KnownMatch, Target

__all__ = ["Question", "check", "worst_first"]

_ORDER = {"terminal": 0, "danger": 1, "warning": 2, "note": 3}


def check(
    chain: Chain,
    target: Target,
    packages: Sequence[Package],
    *,
    opened: frozenset[str] = frozenset(),
    facts: HostFacts | None = None,
    needs_peer_access: bool = False,
    instead: str = "",
    known: Sequence[KnownMatch] = (),
) -> tuple[Finding, ...]:
    """What every rule finds if the gates with the ids ``opened`` are opened and no other, the worst first.

    ``facts`` are those of the host that would serve (None: not known). ``needs_peer_access`` says that the feature
    maps other GPUs' memory, ``instead`` what helps where that cannot be. ``known`` are the
    public results that may hold.
    """
    question = Question(chain, target, tuple(packages), opened, facts, needs_peer_access, instead, tuple(known))
    found = [finding for rule in rules() for finding in rule(question)]
    return worst_first(found)


def worst_first(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings by severity, then by place."""
    return tuple(sorted(found, key=lambda finding: (_ORDER.get(finding.severity, 9), finding.file, finding.line)))
