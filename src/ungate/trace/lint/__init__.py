"""Every rule about gates that contradict each other, over packages that were scanned: what is refused while running
first, then what is not built, then places that differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ungate.model import Chain, Finding, Gate, Reached
from ungate.trace.chain import Trace
from ungate.trace.lint.admitted import Admitted, admitted
from ungate.trace.lint.branches import Branches
from ungate.trace.lint.contradictions import chains_with_defaults, contradictions
from ungate.trace.lint.differing import differing
from ungate.trace.lint.leading import Led, leading
from ungate.trace.lint.refusals import Refusal
from ungate.trace.lint.routed import Given, Refused, values
from ungate.trace.pause import uncollected

__all__ = ["lint"]

_RANK = {"danger": 0, "terminal": 1, "warning": 2, "note": 3}
_SURE = {"high": 0, "medium": 1, "low": 2}


@uncollected()
def lint(trace: Trace, only: Sequence[int], named: Iterable[Chain] = ()) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """(findings, the features and values that were followed) for the given compute capabilities.

    ``named`` are chains that are looked at beside those of the attributes that an architecture gate switches on.
    """
    branches = Branches(trace.corpus, trace.gates)
    chains = chains_with_defaults(trace, named)
    known = values(trace, branches, only)
    found = [finding for chain in chains for finding in contradictions(chain, only, trace.corpus)]
    led = tuple(leading(trace, branches, known, only))
    found.extend(_led(each) for each in led)
    found.extend(_against(known.against()))
    found.extend(_admitted(each) for each in admitted(trace, branches, only))
    found.extend(differing(trace, branches, only))
    followed = (*(chain.feature for chain in chains), *(f"{each.attribute}={each.value}" for each in known.given))
    unique = {(each.rule, each.file, each.line, each.what): each for each in found}
    ordered = sorted(unique.values(), key=lambda each: (_RANK[each.severity], _SURE[each.confidence]))
    return tuple(ordered), tuple(dict.fromkeys(followed))


def _admitted(each: Admitted) -> Finding:
    gate, refusal = each.gate, each.refusal
    other = refusal.gate.package if refusal.gate is not None else refusal.file.partition("/")[0]
    rule = {"raises": "refuses", "builds": "builds-nothing", "image": "binary-lacks"}[refusal.how]
    head = "engine-admits-library" if other != gate.package and refusal.how != "image" else "admits-callee"
    return Finding(
        rule="engine-admits-binary-lacks" if refusal.how == "image" else f"{head}-{rule}",
        severity="terminal" if refusal.how == "image" else "danger",
        what=(
            f"{_named(gate)} lets {listed(each.archs)} come to {each.text} in {each.scope.name} "
            f"({gate.file}:{gate.line}, line {each.line}), and {_does(refusal)}."
        ),
        advice=_advice(gate, refusal, each.archs),
        evidence=f"{gate.condition} admits {gate.passes}; {refusal.evidence}",
        file=refusal.file,
        line=refusal.line,
        end_line=refusal.end_line,
        reached=Reached.YES,
    )


def _led(each: Led) -> Finding:
    gate, refusal = each.gate, each.refusal
    flag = "--" + each.attribute.replace("_", "-")
    does = f"sets {flag} to {each.value}" if each.given else f"lets {flag} {each.value} through"
    unsure = "" if each.sure else "; a step on the way is a method of an object that is made while running"
    return Finding(
        rule=f"value-leads-to-{'refusal' if refusal.how == 'raises' else 'no-build'}",
        severity="danger",
        what=f"{_named(gate)} {does} for {listed(each.archs)} ({gate.file}:{gate.line}), and {_does(refusal)}.",
        advice=f"Give another value by hand, {flag} …, or see which release agrees: "
        f"ungate releases {gate.package} --feature {each.value} --target sm_{each.archs[-1]}",
        evidence=f"{gate.condition} admits {gate.passes}; {refusal.evidence}{unsure}",
        confidence="high" if each.sure else "medium",
        file=refusal.file,
        line=refusal.line,
        end_line=refusal.end_line,
        reached=Reached.YES if each.sure else Reached.UNKNOWN,
    )


def _against(pairs: Iterator[tuple[Given, Refused]]) -> Iterator[Finding]:
    joined: dict[tuple[str, int, str, int], tuple[Given, Refused, list[int]]] = {}
    for given, check in pairs:
        key = (given.scope.module.file, given.line, check.scope.module.file, check.line)
        joined.setdefault(key, (given, check, []))[2].append(given.arch)
    for given, check, archs in joined.values():
        flag = "--" + given.attribute.replace("_", "-")
        yield Finding(
            rule="default-admits-code-refuses",
            severity="danger",
            what=(
                f"{_named(given.gate)} sets {flag} to {given.value} for {listed(archs)} "
                f"({given.gate.file}:{given.line}), and {check.scope.name} raises an error for that value there "
                f"({check.gate.file}:{check.line})."
            ),
            advice=f"Give another value by hand, {flag} …, or see which release agrees: "
            f"ungate releases {given.gate.package} --feature {given.value} --target sm_{archs[-1]}",
            evidence=f"{given.gate.condition} admits {given.gate.passes}; "
            f"{check.gate.condition} admits {check.gate.passes}",
            file=check.gate.file,
            line=check.line,
            reached=Reached.YES,
        )


def _does(refusal: Refusal) -> str:
    way = " → ".join((*refusal.way, refusal.symbol))
    place = f"({refusal.file}:{refusal.line})" if refusal.line else f"({refusal.file})"
    match refusal.how:
        case "raises":
            return f"{way} refuses it there {place}"
        case "builds":
            return f"{way} builds nothing for it {place}"
        case _:
            return f"{way} cannot run there: {refusal.evidence} {place}"


def _advice(gate: Gate, refusal: Refusal, archs: Sequence[int]) -> str:
    package = refusal.gate.package if refusal.gate is not None else gate.package
    feature = refusal.symbol.rpartition(".")[2]
    return (
        "Take another way by a flag, or see which release agrees: "
        f"ungate releases {package} --feature {feature} --target sm_{archs[-1]}"
    )


def listed(archs: Sequence[int]) -> str:
    """``sm_120, sm_121``."""
    return ", ".join(f"sm_{arch}" for arch in archs)


def _named(gate: Gate) -> str:
    return f"{gate.package} {gate.version}".strip()
