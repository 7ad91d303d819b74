"""Gates of one chain that contradict each other: what an engine lets in and the library below it refuses.

The shape is that of sglang#15650: the engine switched a fusion on by default for every Blackwell GPU, the
library's module was built for two majors only, and graph capture failed with the library's message. Device code is
left out: a condition there may choose between two bodies, and is no refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ungate.model import KNOWN_ARCHS, Chain, Finding, Gate, Hop, Reached
from ungate.trace.ask import ask_attribute
from ungate.trace.chain import Trace
from ungate.trace.flags import set_under

__all__ = ["chains_with_defaults", "contradictions"]


def chains_with_defaults(trace: Trace, named: Iterable[Chain] = ()) -> tuple[Chain, ...]:
    """The chains to look at: those that are named, and one for each server attribute that an architecture gate
    switches on by default."""
    chains = list(named)
    seen = {hop.symbol for chain in chains for hop in chain.hops if hop.kind == "flag"}
    for attribute in sorted(set_under(trace.graph, trace.gates, trace.switches.attributes)):
        if any(attribute == name.lstrip("-").replace("-", "_") for name in seen):
            continue
        chains.extend(ask_attribute(trace, attribute))
    return tuple(chains)


def contradictions(chain: Chain, only: Sequence[int] = KNOWN_ARCHS) -> tuple[Finding, ...]:
    """What one chain admits above and refuses below, for the given compute capabilities."""
    found: list[Finding] = []
    above: list[tuple[Hop, Gate]] = []
    for hop in chain.hops:
        for gate in _refusing(hop):
            found.extend(_against(chain, above, hop, gate, only))
        above.extend((hop, gate) for gate in hop.gates if gate.reached is Reached.YES and gate.passes.decided)
    return tuple(found)


def _refusing(hop: Hop) -> Iterator[Gate]:
    """Gates that stop the feature in words or at the build, not by choosing another body."""
    if hop.kind in ("jit-module", "call"):
        yield from (gate for gate in hop.gates if gate.file.endswith(".py") and gate.passes.decided)


def _against(
    chain: Chain, above: Sequence[tuple[Hop, Gate]], hop: Hop, gate: Gate, only: Sequence[int]
) -> Iterator[Finding]:
    higher = [(upper, other) for upper, other in above if other.package != gate.package]
    if not higher:
        return
    admitted = set(only)
    for _, other in higher:
        admitted &= other.passes.yes
    refused = sorted(admitted - gate.passes.yes - gate.passes.unknown)
    if not refused:
        return
    _, first = higher[0]
    archs = ", ".join(f"sm_{arch}" for arch in refused)
    by_default = any(other.role == "default" for _, other in higher)
    flag = next((each.symbol for each in chain.hops if each.kind == "flag"), chain.feature)
    does = f"switches {flag} on by default" if by_default else f"lets {flag} through"
    yield Finding(
        rule="engine-admits-library-refuses",
        severity="danger",
        what=(
            f"{_named(first)} {does} for {archs} ({first.file}:{first.line}), and {_named(gate)} refuses "
            f"{'it' if len(refused) == 1 else 'them'} in {hop.symbol} ({gate.file}:{gate.line})."
        ),
        advice="Switch the feature off explicitly, or see which release agrees: "
        f"ungate releases {gate.package} --feature {hop.symbol.rpartition('.')[2]} --target sm_{refused[-1]}",
        evidence=f"{first.condition} admits {first.passes}; {gate.condition} admits {gate.passes}",
        file=gate.file,
        line=gate.line,
        end_line=gate.end_line,
        reached=gate.reached or Reached.UNKNOWN,
    )


def _named(gate: Gate) -> str:
    return f"{gate.package} {gate.version}".strip()
