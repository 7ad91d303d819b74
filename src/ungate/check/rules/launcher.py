"""A host function that would launch nothing.

All its launches stand under comparisons or conditions that stay false for the target, so it returns as if it had
done its work, or with the error code that its caller may not read.

As printed::

    danger  dispatch would launch no kernel on sm_120
"""

from __future__ import annotations

from collections.abc import Iterator

from ungate.check.question import Question
from ungate.check.remains import CodeFile, code_files, launches
from ungate.model import Finding, Form, Gate, Reached
from ungate.source.cuda.comments import blank
from ungate.source.cuda.functions import Function

__all__ = ["find"]

_LONGEST = 50_000


def find(question: Question) -> Iterator[Finding]:
    """One finding for each host function of which no launch is left."""
    for code in code_files(question):
        for function in code.functions:
            if function.kernel or "__device__" in function.head:
                continue
            spots = launches(code.text, function.open, function.end)
            found = _closing(code, function, spots) if spots else None
            if found is not None:
                yield Finding(
                    rule="launcher",
                    severity="danger",
                    what=f"{function.name} would launch no kernel on {question.target}",
                    advice=f"Open line {found.line} too, or leave all of them closed.",
                    evidence=f"line {found.line}: {' '.join(found.condition.split())} lets through {found.passes}",
                    confidence="medium",  # the launch may be repeated behind a macro that is not expanded here
                    file=code.file,
                    line=code.line(function.start),
                    end_line=code.line(function.end),
                    reached=found.reached or Reached.UNKNOWN,
                )


def _closing(code: CodeFile, function: Function, spots: tuple[int, ...]) -> Gate | None:
    """The first gate that closes, where every launch is closed off."""
    cut: list[tuple[int, int, Gate]] = []
    for gate in code.gates(function.open, function.end):
        if code.holds(gate) is not False:
            continue
        if gate.form is Form.HOST_EXPRESSION:
            region = _guarded(code.text, gate.span[1])
            if region is not None:
                cut.append((*region, gate))
    for branch in code.dropped(function.open, function.end):
        for gate in code.gates(branch.directive.start, branch.start):
            cut.append((branch.start, branch.end, gate))
    closing = [next((gate for start, end, gate in cut if start <= spot < end), None) for spot in spots]
    return closing[0] if None not in closing else None


def _guarded(text: str, offset: int) -> tuple[int, int] | None:
    """The statement or block after ``if (… )`` whose condition ends at ``offset``; None for anything else."""
    code = blank(text[offset : offset + _LONGEST])
    at = len(code) - len(code.lstrip())
    if code[at : at + 1] != ")":
        return None
    at += 1
    while at < len(code) and code[at].isspace():
        at += 1
    if code[at : at + 1] != "{":
        end = code.find(";", at)
        return (offset + at, offset + end + 1) if end >= 0 else None
    depth = 0
    for position in range(at, len(code)):
        if code[position] == "{":
            depth += 1
        elif code[position] == "}":
            depth -= 1
            if depth == 0:
                return offset + at, offset + position + 1
    return None
