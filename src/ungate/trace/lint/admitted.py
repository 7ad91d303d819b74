"""What stands under a gate that lets an architecture through, and what it leads to there.

::

    if is_blackwell_supported():  # true for sm_120
        return flashinfer.mla_prefill(q, kv)  # whose module is built for majors 10 and 11
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ungate.model import Gate, Sense
from ungate.trace.chain import Trace
from ungate.trace.corpus import aside
from ungate.trace.lint.branches import Branches
from ungate.trace.lint.refusals import Refusal, Refusals, calls
from ungate.trace.module import Scope
from ungate.trace.names import Thing
from ungate.trace.route import thing_of

__all__ = ["Admitted", "admitted", "gated", "reachable", "under_gates"]

_HIGHEST = 3  # callers above a function that are asked whether they let an architecture come to it


@dataclass(frozen=True, slots=True)
class Admitted:
    """A call under a gate for the target, which fails there. ``archs`` are those that come to it and fail alike."""

    gate: Gate
    scope: Scope
    line: int
    text: str
    refusal: Refusal
    archs: tuple[int, ...]


def gated(trace: Trace, only: Sequence[int]) -> Iterator[Scope]:
    """The functions in which a gate of Python code stands, tests and third-party files left out; of those files alone
    in which a gate lets one of the architectures through."""
    for file in trace.gates.files:
        if not file.endswith(".py") or aside(file):
            continue
        tests = (gate for gate in trace.gates.of(file) if gate.role != "define" and gate.passes.decided)
        if not any(gate.passes.yes.intersection(only) for gate in tests):
            continue
        module = trace.graph.names.file(file)
        for scope in module.top.within() if module is not None else ():
            if scope.kind == "function" and trace.gates.between(file, scope.body, scope.last):
                yield scope


def admitted(trace: Trace, branches: Branches, only: Sequence[int]) -> Iterator[Admitted]:
    """Every call that a gate lets one of the architectures come to, and that fails on it."""
    refusals = Refusals(trace, branches)
    for scope in gated(trace, only):
        found: dict[tuple[int, str, int], tuple[Gate, ast.Call, Refusal, list[int]]] = {}
        for arch in only:
            for gate, node in under_gates(branches, scope, arch):
                for call in calls(node):
                    refusal = refusals.called(scope, call, arch)
                    if refusal is not None and not _itself(gate, refusal):
                        key = (call.lineno, refusal.file, refusal.line)
                        found.setdefault(key, (gate, call, refusal, []))[3].append(arch)
        for gate, call, refusal, archs in found.values():
            left = tuple(arch for arch in archs if reachable(trace, branches, scope, arch))
            if left:
                yield Admitted(gate, scope, call.lineno, ast.unparse(call.func), refusal, left)


def under_gates(branches: Branches, scope: Scope, arch: int) -> Iterator[tuple[Gate, ast.AST]]:
    """(gate, statement or expression) for what a function does on an architecture because a gate lets it through. Each
    is told without the blocks in it, which come for themselves."""
    yield from _block(branches, scope, getattr(scope.node, "body", []), arch, None)[0]


def _block(
    branches: Branches, scope: Scope, body: list[ast.stmt], arch: int, gate: Gate | None
) -> tuple[list[tuple[Gate, ast.AST]], bool]:
    """(what is done under a gate, whether the architecture never comes to what follows the block)."""
    found: list[tuple[Gate, ast.AST]] = []
    for statement in body:
        match statement:
            case ast.If(test=test, body=then, orelse=other) | ast.While(test=test, body=then, orelse=other):
                told = branches.told(scope, test, arch)
                lets = _letting(branches, scope, test, arch, told.gate)
                ends: list[bool] = []
                for block, expected in ((then, True), (other, False)):
                    if told.holds is (not expected) or (lets is not None and not expected):
                        continue  # what else the test asks for is taken to hold
                    inside, over = _block(branches, scope, block, arch, (lets if expected else None) or gate)
                    found.extend(inside)
                    ends.append(over)
                if all(ends):
                    return found, True
                if told.holds is False and then and isinstance(then[-1], ast.Raise) and _names(test, told.gate):
                    gate = told.gate or gate  # a check that lets the architecture through; a return is another way
            case ast.Assert(test=test):
                told = branches.told(scope, test, arch)
                if told.holds is False:
                    return found, True
                gate = _letting(branches, scope, test, arch, told.gate) or gate
            case ast.For(body=inner) | ast.AsyncFor(body=inner) | ast.With(body=inner) | ast.AsyncWith(body=inner):
                found.extend(_block(branches, scope, inner, arch, gate)[0])
            case ast.Try(body=inner, handlers=handlers, finalbody=final):
                if not handlers:
                    found.extend(_block(branches, scope, inner, arch, gate)[0])
                found.extend(_block(branches, scope, final, arch, gate)[0])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Match():
                continue
            case ast.Raise() | ast.Continue() | ast.Break():
                return found, True
            case _:
                found.extend([(gate, statement)] if gate is not None else [])
                found.extend(_chosen(branches, scope, statement, arch))
                if isinstance(statement, ast.Return):
                    return found, True
    return found, False


def _chosen(branches: Branches, scope: Scope, statement: ast.stmt, arch: int) -> Iterator[tuple[Gate, ast.AST]]:
    """The side of each ``a if gate else b`` that an architecture takes because a gate lets it."""
    for node in ast.walk(statement):
        if isinstance(node, ast.IfExp):
            told = branches.told(scope, node.test, arch)
            gate = _letting(branches, scope, node.test, arch, told.gate)
            if told.holds is not False and gate is not None:
                yield gate, node.body


def _letting(branches: Branches, scope: Scope, test: ast.expr, arch: int, gate: Gate | None) -> Gate | None:
    """The gate of a test that lets the architecture through, None where it stands in it negated or not at all."""
    if gate is None or arch not in gate.passes.yes or isinstance(test, ast.UnaryOp):
        return None
    return gate


def _names(test: ast.expr, gate: Gate | None) -> bool:
    """Whether the check before an error says what passes, a floor or a list: ``if major < 9``, ``if not is_new()``. One
    that names what fails (``if major == 9``) says nothing of the others."""
    if gate is None or gate.sense is Sense.ALLOW:
        return gate is not None
    compared = [op for node in ast.walk(test) if isinstance(node, ast.Compare) for op in node.ops]
    return any(isinstance(op, ast.Lt | ast.LtE | ast.NotEq | ast.NotIn) for op in compared)


def _itself(gate: Gate, refusal: Refusal) -> bool:
    return refusal.gate is not None and (gate.file, gate.span) == (refusal.gate.file, refusal.gate.span)


def reachable(trace: Trace, branches: Branches, scope: Scope, arch: int) -> bool:
    """False where every known caller keeps the architecture from a function, or from making its object."""
    return _reached(trace, branches, scope, arch, _HIGHEST, set())


def _reached(trace: Trace, branches: Branches, scope: Scope, arch: int, left: int, seen: set[Thing]) -> bool:
    owner = scope.parent if scope.parent is not None and scope.parent.kind == "class" else None
    things: Iterable[Thing] = (thing_of(scope), *((thing_of(owner),) if owner is not None else ()))
    for thing in things:
        if thing in seen or not left:
            continue
        seen.add(thing)
        sites = [site for site in trace.graph.callers(thing) if site.scope.kind == "function"]
        sites = [site for site in sites if site.verified and (owner is None or site.scope.owner("class") is not owner)]
        if sites and not any(
            branches.come_to(site.scope, site.line, arch).holds is not False
            and _reached(trace, branches, site.scope, arch, left - 1, seen)
            for site in sites
        ):
            return False
    return True
