"""Findings about places that differ: builds, launches, lists, names, and answers without an effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ungate.model import KNOWN_ARCHS, Finding, Gate
from ungate.trace.chain import Trace
from ungate.trace.lint.branches import Branches
from ungate.trace.lint.built import unbuilt
from ungate.trace.lint.launched import launched
from ungate.trace.lint.repeated import Odd, exact, odd, unasked
from ungate.trace.lint.vain import in_vain

__all__ = ["differing"]

_HOW = {"waits": "has it in device code", "answers": "answers for it", "sets": "sets it"}


def differing(trace: Trace, branches: Branches, only: Sequence[int]) -> Iterator[Finding]:
    """Every finding of these rules for the given compute capabilities."""
    yield from _unbuilt(trace, only)
    for each in unasked(trace, branches, only):
        yield _odd(each, "check-ignores-list", "danger", f"the list {each.name} of the same class names them all")
    yield from _launched(trace, only)
    yield from _vain(trace, branches, only)
    for each in odd(trace, only):
        yield _odd(each, "list-differs", "note", f"{each.count} lists of that name beside it do not")
    yield from _exact(trace, only)


def _unbuilt(trace: Trace, only: Sequence[int]) -> Iterator[Finding]:
    for each in unbuilt(trace, only):
        yield _finding(
            "admitted-not-built",
            "terminal",
            f"{_named(each.gate)} lets {_listed(each.archs)} come to what {each.macro} guards "
            f"({each.gate.file}:{each.gate.line}), and the list that {each.macro} is defined by does not hold "
            f"{'it' if len(each.archs) == 1 else 'them'} ({each.list.file}:{each.list.line}).",
            "Bound the condition above, or build that part for the architecture too, and look which it is: "
            f"ungate scan {each.gate.package} --target sm_{each.archs[-1]}",
            each.gate,
            f"{each.gate.condition} admits {each.gate.passes}; {each.list.condition} holds {each.list.passes}",
        )


def _launched(trace: Trace, only: Sequence[int]) -> Iterator[Finding]:
    for each in launched(trace, only):
        sets, lacks = each.sets.gate, each.lacks.gate
        yield _finding(
            "launch-attribute-differs",
            "warning",
            f"{_named(sets)} sets {each.what} for {_listed(each.archs)} ({sets.file}:{sets.line}), and {_named(lacks)} "
            f"{_HOW[each.lacks.how]} for other architectures only ({lacks.file}:{lacks.line}).",
            "One of the two is wrong, or the second is of a kernel that is built otherwise: "
            f"ungate check {sets.symbol.rpartition('.')[2] or sets.file} --target sm_{each.archs[-1]}",
            lacks,
            f"{sets.condition} admits {sets.passes}; {lacks.condition} admits {lacks.passes}; "
            f"{each.setting} such places and {each.lacking} such others",
            "medium",
        )


def _vain(trace: Trace, branches: Branches, only: Sequence[int]) -> Iterator[Finding]:
    for each in in_vain(trace, branches, only):
        uses = "its only use holds" if each.uses == 1 else f"each of its {each.uses} uses holds"
        yield _finding(
            "admitted-in-vain",
            "warning",
            f"{_named(each.gate)} lets {_listed(each.archs)} through in {each.scope.name} "
            f"({each.gate.file}:{each.gate.line}), and {uses} {'it' if len(each.archs) == 1 else 'them'} back again "
            f"({each.narrower.file}:{each.narrower.line}).",
            "Two gates stand before one feature; see both in their order: "
            f"ungate why {each.scope.name.rpartition('.')[2]} --target sm_{each.archs[-1]}",
            each.narrower,
            f"{each.gate.condition} admits {each.gate.passes}; {each.narrower.condition} admits {each.narrower.passes}",
        )


def _odd(each: Odd, rule: str, severity: str, says: str) -> Finding:
    does, where = ("lets", "through") if each.archs[-1] in each.gate.passes.yes else ("holds", "back")
    return _finding(
        rule,
        severity,
        f"{_named(each.gate)} {does} {_listed(each.archs)} {where} in {each.gate.symbol or each.gate.file} "
        f"({each.gate.file}:{each.gate.line}), and {says} ({each.other.file}:{each.other.line}).",
        f"Look at every one of them: ungate scan {each.gate.package} --target sm_{each.archs[-1]}",
        each.gate,
        f"{each.gate.condition} admits {each.gate.passes}; {each.other.condition} admits {each.other.passes}",
    )


def _exact(trace: Trace, only: Sequence[int]) -> Iterator[Finding]:
    for each in exact(trace, every=len(only) == len(KNOWN_ARCHS)):
        yield Finding(
            rule="exact-name",
            severity="warning",
            what=f"{each.symbol} compares a name that comes as {each.comes} with one that has no suffix: {each.text} "
            f"({each.file}:{each.line}).",
            advice="Compare what stands before the suffix. What else asks for this architecture is listed by: "
            f"ungate scan {trace.corpus.owner[each.file].name}",
            evidence=each.text,
            file=each.file,
            line=each.line,
        )


def _finding(
    rule: str, severity: str, what: str, advice: str, gate: Gate, evidence: str, confidence: str = "high"
) -> Finding:
    return Finding(rule, severity, what, advice, evidence, confidence, gate.file, gate.line, gate.end_line)


def _listed(archs: Sequence[int]) -> str:
    return ", ".join(f"sm_{arch}" for arch in archs)


def _named(gate: Gate) -> str:
    return f"{gate.package} {gate.version}".strip()
