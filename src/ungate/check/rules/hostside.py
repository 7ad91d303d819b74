"""A condition on a macro of the device's compilation, in a function of the host.

``__CUDA_ARCH__`` and what hangs on it are not defined when the host's code is compiled, so the branch is chosen the
same way whatever the target is: opening the condition changes nothing (NVIDIA/cutlass#2696).

As printed::

    warning  main tests __CUDA_ARCH__ in the host's code, where it is never defined: opening line 40 changes nothing
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.check.question import Question
from ungate.check.remains import CodeFile, code_files
from ungate.model import Finding, Form, Gate, Reached
from ungate.source.cuda.functions import Function

__all__ = ["find"]

_ON_DEVICE = re.compile(r"device|global|_INLINE|HOST_DEVICE|\bHD\b|KERNEL", re.IGNORECASE)
_HOST_ONLY = re.compile(
    r"\bstd::c(?:out|err)\b|\bthrow\b|<<<|\bcuda(?:Malloc|Memcpy|FuncSetAttribute|LaunchKernel|GetDevice|Stream\w+|Event\w+)\w*\s*\("
    r"|\bTORCH_CHECK\b|\bTVM_FFI_\w+|\bstd::(?:vector|string|ostream|runtime_error)\b"
)


def find(question: Question) -> Iterator[Finding]:
    """One finding a function that is the host's for certain and whose condition is one of the opened gates."""
    for code in code_files(question):
        for function in code.functions:
            gates = [gate for gate in code.gates(function.open, function.end) if _tested(question, gate)]
            if gates and _is_host(code, function):
                yield _finding(code, function, gates[0])


def _tested(question: Question, gate: Gate) -> bool:
    return gate.id in question.opened and gate.form in {Form.PREPROCESSOR, Form.MACRO_TEST}


def _is_host(code: CodeFile, function: Function) -> bool:
    return not _ON_DEVICE.search(function.head) and bool(_HOST_ONLY.search(code.text, function.open, function.end))


def _finding(code: CodeFile, function: Function, gate: Gate) -> Finding:
    return Finding(
        rule="hostside",
        severity="warning",
        what=f"{function.name} tests {', '.join(gate.names) or 'a macro of the device'} in the host's code, "
        f"where it is never defined: opening line {gate.line} changes nothing",
        advice="Look for the value that the host asks at run time, or for a macro that is defined for the whole build.",
        evidence=f"line {gate.line}: {' '.join(gate.condition.split())}",
        confidence="medium",  # a macro of the build may define it for the host too
        file=code.file,
        line=gate.line,
        end_line=gate.end_line,
        reached=gate.reached or Reached.UNKNOWN,
    )
