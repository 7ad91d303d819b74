"""Where a value of a setting leads that a gate lets through: to a check or a build that refuses the architecture.

::

    if args.attention_backend == "trtllm_mla":
        if not is_blackwell_supported(): raise ...  # lets sm_120 through

    FLASHINFER_CHECK(mSM == kSM_100 || mSM == kSM_103, "Unsupported architecture");

The shape is that of sglang#24633. A way on which a gate sends the architecture somewhere else is no contradiction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ungate.model import Chain, Gate, Hop, Reached
from ungate.trace.answers import of_value
from ungate.trace.chain import Trace
from ungate.trace.lint.branches import Branches
from ungate.trace.lint.contradictions import stops
from ungate.trace.lint.refusals import Refusal, Refusals
from ungate.trace.lint.routed import Values
from ungate.trace.names import Thing

__all__ = ["Led", "leading"]

_NATIVE = ("source", "include", "kernel")
_HOST = "cuda-host-compare"
_DEVICES = frozenset({"cuda", "gpu", "cpu"})  # a value that names the kind of device leads to everything there is


@dataclass(frozen=True, slots=True)
class Led:
    """A value that ``gate`` lets through for ``archs`` and what refuses them below. ``given`` tells that the gate gives
    the value by itself; else it is a check that passes. ``sure`` is False where a step was not verified."""

    attribute: str
    value: str
    gate: Gate
    given: bool
    refusal: Refusal
    archs: tuple[int, ...]
    sure: bool


def leading(trace: Trace, branches: Branches, known: Values, only: Sequence[int]) -> Iterator[Led]:
    """The values that lead to a refusal, each with the gate that lets it through."""
    asked: dict[tuple[str, str], dict[int, tuple[Gate, bool]]] = {}
    for check in known.checked:
        if check.passes and check.attribute in trace.switches.attributes and check.value not in _DEVICES:
            asked.setdefault((check.attribute, check.value), {}).setdefault(check.arch, (check.gate, False))
    for given in known.given:
        if given.attribute in trace.switches.attributes and given.value not in _DEVICES:
            asked.setdefault((given.attribute, given.value), {})[given.arch] = (given.gate, True)
    refusals = Refusals(trace, branches)
    for (attribute, value), gates in asked.items():
        found: dict[tuple[str, int, str], tuple[Gate, bool, Refusal, bool, list[int]]] = {}
        for chain in of_value(trace, value, "--" + attribute.replace("_", "-")):
            for arch in (arch for arch in only if arch in gates):
                refusal, sure = _refused(trace, branches, refusals, chain, arch)
                if refusal is not None:
                    gate, by_default = gates[arch]
                    key = (refusal.file, refusal.line, gate.id)
                    found.setdefault(key, (gate, by_default, refusal, sure, []))[4].append(arch)
        for gate, by_default, refusal, sure, archs in found.values():
            yield Led(attribute, value, gate, by_default, refusal, tuple(dict.fromkeys(archs)), sure)


def _refused(
    trace: Trace, branches: Branches, refusals: Refusals, chain: Chain, arch: int
) -> tuple[Refusal | None, bool]:
    """(the first refusal on the way to the first module, whether every step to it is verified)."""
    sure, built = True, False
    for hop in chain.hops:
        if hop.kind in ("flag", "default") or not hop.file:
            continue
        if built and hop.kind not in _NATIVE:
            break  # another way to another module: its first steps are those of this one, and are not repeated
        built = built or hop.kind in ("jit-module", *_NATIVE)
        sure = sure and (hop.verified is True or hop.kind in _NATIVE)
        refusal = _of_hop(trace, branches, refusals, hop, arch)
        if refusal is not None:
            return refusal, sure
        if hop.kind == "call" and _elsewhere(trace, branches, hop, arch):
            return None, sure
    return None, sure


def _of_hop(trace: Trace, branches: Branches, refusals: Refusals, hop: Hop, arch: int) -> Refusal | None:
    if hop.kind in ("call", "jit-module") and hop.file.endswith(".py"):
        module = trace.graph.names.file(hop.file)
        scope = module.scopes.get(hop.symbol) if module is not None else None
        if scope is None or scope.kind != "function" or scope.name.endswith("__init__"):
            return None
        return refusals.of(Thing("function", scope.module.name, scope.name), arch)
    if hop.kind in _NATIVE:
        for gate in hop.gates:
            refuses = gate.passes.decided and arch not in gate.passes.yes
            if refuses and gate.pattern == _HOST and gate.reached is Reached.YES and stops(gate, trace.corpus):
                evidence = f"{gate.condition} admits {gate.passes}"
                symbol = gate.symbol or hop.symbol
                return Refusal("raises", symbol, gate.file, gate.line, gate.end_line, evidence, gate)
    return None


def _elsewhere(trace: Trace, branches: Branches, hop: Hop, arch: int) -> bool:
    """Whether a gate keeps the architecture from the line that leads on, so that it takes another way."""
    module = trace.graph.names.file(hop.file)
    scope = module.at(hop.line) if module is not None else None
    return scope is not None and scope.kind == "function" and branches.come_to(scope, hop.line, arch).holds is False
