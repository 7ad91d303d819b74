"""Kernels that are written for another architecture's instructions, and not merely kept from this one.

A CUTLASS architecture tag (``arch::Sm100``) selects the instructions a kernel is made of. Where every tag on the way
is another architecture's, opening the gates above compiles a kernel that traps or does not compile.

As printed::

    danger  every kernel on this way is written for arch::Sm100 (sm_100 sm_103): opening gates gives sm_120a none
"""

from __future__ import annotations

from collections.abc import Iterator

from ungate.check.question import Question
from ungate.model import Finding, Gate, Reached, Status

__all__ = ["find"]

_PATTERN = "cuda-arch-tag"


def find(question: Question) -> Iterator[Finding]:
    """One finding for the first file on the way whose tags are all another architecture's; none where one file fits."""
    files: dict[str, list[Gate]] = {}
    for hop in question.chain.hops:
        for gate in hop.gates:
            if gate.pattern == _PATTERN:
                files.setdefault(gate.file, []).append(gate)
    foreign = {
        file: gates
        for file, gates in files.items()
        if all(gate.status(question.target) is Status.CLOSED for gate in gates)
    }
    if not foreign:
        return
    whole = len(foreign) == len(files)
    tags = sorted({gate.condition.strip() for gates in foreign.values() for gate in gates})
    archs = sorted({arch for gates in foreign.values() for gate in gates for arch in gate.passes.yes})
    named = " ".join(f"sm_{arch}" for arch in archs)
    file, gates = next(iter(foreign.items()))
    where = "every kernel on this way" if whole else f"{len(foreign)} of {len(files)} files with kernels"
    yield Finding(
        rule="tagged",
        severity="danger" if whole else "note",
        what=f"{where} {'is' if whole else 'are'} written for {', '.join(tags)} ({named}): "
        f"opening gates gives {question.target} none of them",
        advice="Look for a kernel of this target's own family, or a release that brings one: "
        f"ungate releases DIST --feature {question.chain.feature} --target {question.target}"
        if whole
        else "Make sure that the dispatch chooses one of the others for this target.",
        evidence="; ".join(
            f"{each}: line {', '.join(str(gate.line) for gate in theirs[:4])}" for each, theirs in foreign.items()
        ),
        confidence="medium",  # other kernels, without a tag, may stand beside
        file=file,
        line=gates[0].line,
        end_line=gates[-1].line,
        reached=gates[0].reached or Reached.UNKNOWN,
    )
