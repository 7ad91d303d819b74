"""An answer that lets an architecture through, and whose every use holds it back again.

::

    def supports_fast_gemm(): return capability.major in (9, 10, 12)   # opened for sm_120

    return supports_fast_gemm() and is_device_capability_family(100)   # its only use

The shape is that of vllm#41062: two gates for one feature in two files, of which one was opened. A use among several
that asks for less is how kernels are chosen, and is no contradiction.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ungate.model import Gate
from ungate.trace.chain import Trace
from ungate.trace.corpus import aside
from ungate.trace.graph import Site
from ungate.trace.lint.branches import Branches
from ungate.trace.module import Scope
from ungate.trace.route import thing_of
from ungate.trace.switches import tokens

__all__ = ["Vain", "in_vain"]

_MANY = 8  # files that hold a name: one of so many uses passes the answer on
_HANDED = 2  # functions that only hand the answer on
_OF_ARCHS = frozenset(
    {"sm", "arch", "capability", "hopper", "blackwell", "ampere", "ada", "cuda", "family", "platform"}
)


@dataclass(frozen=True, slots=True)
class Vain:
    """What ``gate`` answers for ``archs`` in ``scope``, the gate that holds them back, and the number of such uses."""

    gate: Gate
    scope: Scope
    narrower: Gate
    archs: tuple[int, ...]
    uses: int


def in_vain(trace: Trace, branches: Branches, only: Sequence[int]) -> Iterator[Vain]:
    """Each answer that no use of it passes on for one of the architectures."""
    for file in trace.gates.files:
        if not file.endswith(".py") or aside(file):
            continue
        answers = [gate for gate in trace.gates.of(file) if gate.role == "define" and gate.symbol and _may(gate, only)]
        module = trace.graph.names.file(file) if answers else None
        for gate in answers:
            scope = module.scopes.get(gate.symbol) if module is not None else None
            if scope is None or scope.kind != "function" or not _returned(branches, scope, gate) or _of_archs(scope):
                continue
            found = [(arch, _held(trace, branches, scope, arch, _HANDED)) for arch in only if arch in gate.passes.yes]
            held = [(arch, gates) for arch, gates in found if gates]
            if held:
                yield Vain(gate, scope, held[-1][1][0], tuple(arch for arch, _ in held), len(held[-1][1]))


def _may(gate: Gate, only: Sequence[int]) -> bool:
    return gate.passes.decided and bool(gate.passes.yes.intersection(only))


def _of_archs(scope: Scope) -> bool:
    """Whether a function's name says that it asks for an architecture, and not for a feature."""
    name = scope.name.rpartition(".")[2]
    return any(word in _OF_ARCHS or word.startswith("sm") for word in tokens(name))


def _returned(branches: Branches, scope: Scope, gate: Gate) -> bool:
    """Whether the gate is all that the function answers."""
    answers = [node.value for node in scope.nodes(ast.Return) if node.value is not None]
    return len(answers) == 1 and branches.gate(scope, answers[0], answers[0]) is gate


def _held(trace: Trace, branches: Branches, scope: Scope, arch: int, handed: int) -> list[Gate]:
    """The gate of each use of a function's answer that holds the architecture back; empty where one does not."""
    held: list[Gate] = []
    if len(trace.corpus.holding(scope.name.rpartition(".")[2])) > _MANY:
        return []
    sites = [site for site in trace.graph.callers(thing_of(scope)) if site.use.call]
    for site in sites:
        narrower = _narrower(branches, site, arch)
        if narrower is not None:
            held.append(narrower)
            continue
        hands_on = handed and site.verified and _is_answer(site) and site.scope.kind == "function"
        further = _held(trace, branches, site.scope, arch, handed - 1) if hands_on else []
        if not further:
            return []
        held.extend(further)
    return held


def _narrower(branches: Branches, site: Site, arch: int) -> Gate | None:
    """What holds the architecture back where an answer is asked for: another operand of the ``and`` it stands in, or
    a test before it."""
    for node in site.scope.nodes(ast.BoolOp):
        if not isinstance(node.op, ast.And) or not any(child is site.use.node for child in ast.walk(node)):
            continue
        others = [value for value in node.values if not any(child is site.use.node for child in ast.walk(value))]
        for other in others:
            told = branches.told(site.scope, other, arch)
            if told.holds is False and told.gate is not None:
                return told.gate
        whole = branches.told(site.scope, node, arch)
        if whole.holds is False and whole.gate is not None and others:
            return whole.gate
    before = branches.come_to(site.scope, site.line, arch)
    return before.gate if before.holds is False else None


def _is_answer(site: Site) -> bool:
    """Whether a function returns the answer of the call, perhaps with further conditions."""
    return any(
        child is site.use.node
        for node in site.scope.nodes(ast.Return)
        if node.value is not None
        for child in ast.walk(node.value)
    )
