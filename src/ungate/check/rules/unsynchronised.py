"""A kernel that is launched to overlap the one before it, and whose wait is compiled out.

The host sets the attribute for programmatic dependent launch; the kernel's ``cudaGridDependencySynchronize()`` stands
under a condition that stays closed. The kernel then reads what its predecessor has not written yet: wrong
numbers now and then, and no error.

As printed::

    danger  rms_norm_kernel is launched with programmatic dependent launch, and its wait would be compiled out on sm_120
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.check.question import Question
from ungate.check.remains import CodeFile, code_files
from ungate.model import Finding, Reached

__all__ = ["find"]

_WAIT = re.compile(
    r"\bcudaGridDependencySynchronize\s*\(|griddepcontrol\.wait|\bwait_on_dependent_grids\s*\(|\bgdc_wait\s*\("
)
_HOST_SETS = "cudaLaunchAttributeProgrammaticStreamSerialization"


def find(question: Question) -> Iterator[Finding]:
    """One finding for each kernel that has a wait in its text and none in what is left of it."""
    for code in code_files(question):
        if _HOST_SETS in code.text:
            yield from _in_file(question, code)


def _in_file(question: Question, code: CodeFile) -> Iterator[Finding]:
    for function in code.functions:
        if not function.kernel or not _WAIT.search(code.text, function.open, function.end):
            continue
        left = code.remaining(function.open, function.end)
        if _WAIT.search(left) or not left.replace("{", "").replace("}", "").strip():
            continue
        lost = [
            gate
            for branch in code.dropped(function.open, function.end)
            for gate in code.gates(branch.directive.start, branch.start)
            if _WAIT.search(code.text, branch.start, branch.end)
        ]
        gate = lost[0] if lost else None
        yield Finding(
            rule="unsynchronised",
            severity="danger",
            what=f"{function.name} is launched with programmatic dependent launch, and its wait would be compiled out "
            f"on {question.target}",
            advice=f"Open the condition in line {gate.line} too, or leave all of them closed."
            if gate
            else "Leave the gates of this file closed.",
            evidence=f"line {gate.line}: {' '.join(gate.condition.split())}" if gate else "",
            confidence="medium",  # the attribute may be set to 0 at run time
            file=code.file,
            line=code.line(function.start),
            end_line=code.line(function.end),
            reached=(gate.reached if gate else None) or Reached.UNKNOWN,
        )
