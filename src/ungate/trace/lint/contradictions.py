"""Gates of one chain that contradict each other: what an engine lets in and the library below it refuses.

The shape is that of sglang#15650: the engine switched a fusion on by default for every Blackwell GPU, the
library's module was built for two majors only, and graph capture failed with the library's message. The same happens
where a check in host C++ refuses (sglang#24633), where a package's own code refuses what its default switched on
(sglang#18758, vllm#41062), and where the binary below has no code for what was let in (a floor such as ``>= 10.0`` over
kernels of one family, club-3090#574). Device code is left out: a condition there may choose between two bodies, and is
no refusal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ungate.model import KNOWN_ARCHS, Chain, Finding, Gate, Hop, Reached, Sense
from ungate.trace.ask import ask_attribute
from ungate.trace.chain import Trace
from ungate.trace.corpus import Corpus, aside
from ungate.trace.flags import set_under
from ungate.trace.gates import Gates

__all__ = ["chains_with_defaults", "contradictions", "stops"]


def chains_with_defaults(trace: Trace, named: Iterable[Chain] = ()) -> tuple[Chain, ...]:
    """The chains to look at: those that are named, and one for each server attribute that an architecture gate
    switches on by default."""
    chains = list(named)
    seen = {hop.symbol for chain in chains for hop in chain.hops if hop.kind == "flag"}
    files = {file: _switched(trace.corpus, file) for file in trace.gates.files}
    switching = Gates(gate for file, names in files.items() if names for gate in trace.gates.of(file))
    attributes = trace.switches.attributes & frozenset().union(*files.values())
    for attribute in sorted(set_under(trace.graph, switching, attributes)):
        if any(attribute == name.lstrip("-").replace("-", "_") for name in seen):
            continue
        chains.extend(ask_attribute(trace, attribute))
    return tuple(chains)


_ON = re.compile(rb"\.(\w+) *= *True\b")
_HOST = "cuda-host-compare"  # the pattern of a comparison in host C++
_CHECK = re.compile(rb"\b\w*(?:CHECK|ASSERT|ENFORCE)\w*\s*\(")


def _switched(corpus: Corpus, file: str) -> frozenset[str]:
    """The names under which a file stores ``True`` on an object: only for these is it worth parsing."""
    if not file.endswith(".py") or aside(file):
        return frozenset()
    return frozenset(name.decode() for name in _ON.findall(corpus.text(file)))


def contradictions(
    chain: Chain, only: Sequence[int] = KNOWN_ARCHS, corpus: Corpus | None = None
) -> tuple[Finding, ...]:
    """What one chain admits above and refuses below, for the given compute capabilities. With ``corpus``, the checks
    of host C++ are looked at too."""
    found: list[Finding] = []
    above: list[tuple[Hop, Gate]] = []
    for hop in chain.hops:
        for gate in _refusing(hop, corpus):
            higher = [(upper, other) for upper, other in above if other.package != gate.package]
            own = [(upper, other) for upper, other in above if other.package == gate.package]
            defaults = [(upper, other) for upper, other in own if other.role == "default"]
            found.extend(_against(chain, "engine-admits-library-refuses", "danger", higher, hop, gate, only))
            if defaults and hop.kind != "default":
                found.extend(_against(chain, "default-admits-code-refuses", "warning", own, hop, gate, only))
        if hop.blocker and hop.kind == "kernel" and chain.target.number in only:
            found.extend(_binary(chain, above, hop))
        above.extend((hop, gate) for gate in hop.gates if gate.reached is Reached.YES and gate.passes.decided)
    return tuple(found)


def _refusing(hop: Hop, corpus: Corpus | None) -> Iterator[Gate]:
    """Gates that stop the feature in words or at the build, not by choosing another body."""
    if hop.kind in ("jit-module", "call"):
        yield from (gate for gate in hop.gates if gate.file.endswith(".py") and gate.passes.decided)
    if corpus is not None and hop.kind in ("source", "include", "kernel"):
        for gate in hop.gates:
            if gate.pattern == _HOST and gate.passes.decided and gate.reached is Reached.YES and stops(gate, corpus):
                yield gate


def stops(gate: Gate, corpus: Corpus) -> bool:
    """Whether a comparison of host code ends in an error: it guards one, or it is what a check macro asks for."""
    if gate.sense is Sense.REFUSE:
        return True
    head = corpus.text(gate.file)[: gate.span[0]]
    statement = head[max(head.rfind(mark) for mark in (b";", b"{", b"}")) + 1 :]
    return gate.span != (0, 0) and bool(_CHECK.search(statement))


def _against(
    chain: Chain,
    rule: str,
    severity: str,
    higher: Sequence[tuple[Hop, Gate]],
    hop: Hop,
    gate: Gate,
    only: Sequence[int],
) -> Iterator[Finding]:
    if not higher:
        return
    refused = sorted(_admitted(higher, only) - gate.passes.yes - gate.passes.unknown)
    if not refused:
        return
    first = next((other for _, other in higher if other.role == "default"), higher[0][1])
    yield Finding(
        rule=rule,
        severity=severity,
        what=(
            f"{_named(first)} {_does(chain, higher)} for {_listed(refused)} ({first.file}:{first.line}), and "
            f"{_named(gate)} refuses {'it' if len(refused) == 1 else 'them'} in {hop.symbol or hop.file} "
            f"({gate.file}:{gate.line})."
        ),
        advice="Switch the feature off explicitly, or see which release agrees: "
        f"ungate releases {gate.package} --feature {_feature(hop, gate)} --target sm_{refused[-1]}",
        evidence=f"{first.condition} admits {first.passes}; {gate.condition} admits {gate.passes}",
        file=gate.file,
        line=gate.line,
        end_line=gate.end_line,
        reached=gate.reached or Reached.UNKNOWN,
    )


def _binary(chain: Chain, above: Sequence[tuple[Hop, Gate]], hop: Hop) -> Iterator[Finding]:
    """A binary without code for the target, below gates that let it through."""
    if not above or chain.target.number not in _admitted(above, (chain.target.number,)):
        return
    _, first = above[0]
    yield Finding(
        rule="engine-admits-binary-lacks",
        severity="terminal",
        what=(
            f"{_named(first)} {_does(chain, above)} for sm_{chain.target.number} ({first.file}:{first.line}), and "
            f"{hop.file} cannot run there: {hop.blocker}."
        ),
        advice="No edit adds code to a binary; switch the feature off, or install a build for this architecture: "
        f"ungate doctor, ungate releases {first.package} --feature {chain.feature} --target sm_{chain.target.number}",
        evidence=f"{first.condition} admits {first.passes}; {hop.note}",
        file=hop.file,
        line=hop.line,
        reached=Reached.YES if hop.verified else Reached.UNKNOWN,
    )


def _admitted(higher: Sequence[tuple[Hop, Gate]], only: Sequence[int]) -> set[int]:
    admitted = set(only)
    for _, gate in higher:
        admitted &= gate.passes.yes
    return admitted


def _does(chain: Chain, higher: Sequence[tuple[Hop, Gate]]) -> str:
    flag = next((each.symbol for each in chain.hops if each.kind == "flag"), chain.feature)
    by_default = any(gate.role == "default" for _, gate in higher)
    return f"switches {flag} on by default" if by_default else f"lets {flag} through"


def _listed(archs: Sequence[int]) -> str:
    return ", ".join(f"sm_{arch}" for arch in archs)


def _feature(hop: Hop, gate: Gate) -> str:
    return (hop.symbol or gate.symbol).rpartition(".")[2]


def _named(gate: Gate) -> str:
    return f"{gate.package} {gate.version}".strip()
