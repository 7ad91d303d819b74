"""Architectures that ride along: a list of major versions cannot let in one of them alone.

As printed::

    note  opening line 61 for sm_120 also lets in sm_121
"""

from __future__ import annotations

from collections.abc import Iterator

from ungate.check.question import Question
from ungate.model import KNOWN_ARCHS, Finding, Form, Gate, Reached

__all__ = ["find", "riders_of"]


def riders_of(gate: Gate, arch: int) -> tuple[int, ...]:
    """Who gets in with ``arch`` where the gate lists majors; none where it lists capabilities."""
    if gate.form is not Form.INT_LIST or not gate.passes.yes:
        return ()
    majors = {each // 10 for each in gate.passes.yes}
    whole = {each for each in KNOWN_ARCHS if each // 10 in majors}
    if whole != set(gate.passes.yes):
        return ()
    return tuple(each for each in KNOWN_ARCHS if each // 10 == arch // 10 and each != arch)


def find(question: Question) -> Iterator[Finding]:
    """One note for each opened gate with riders, a warning where a gate further on still stops them."""
    gates = list({gate.id: gate for hop in question.hops for gate in hop.gates}.values())
    for gate in gates:
        riders = riders_of(gate, question.target.number) if gate.id in question.opened else ()
        if not riders:
            continue
        # What the series opens lets the riders in as well; only what stays closed can stop them half way.
        left = [other for other in gates if other.id not in question.opened and other.passes.yes]
        stopped = sorted({each for each in riders for other in left if other.passes.lets(each) is False})
        named = ", ".join(f"sm_{each}" for each in riders)
        yield Finding(
            rule="riders",
            severity="note",
            what=f"opening line {gate.line} for {question.target} also lets in {named}",
            advice=_advice(stopped),
            evidence=f"{' '.join(gate.condition.split())} lists major versions",
            file=gate.file,
            line=gate.line,
            end_line=gate.end_line,
            reached=gate.reached or Reached.UNKNOWN,
        )


def _advice(stopped: list[int]) -> str:
    if not stopped:
        return "Every other gate of the series lets them in too, so that none is let in above and left hollow below."
    names = ", ".join(f"sm_{arch}" for arch in stopped)
    return f"Gates that stay closed further on stop {names}: open the same set at every step."
