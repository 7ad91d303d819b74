"""A device function that would return a constant instead of its result.

Its working lines stand under a condition that stays closed, and what is left is ``return 0;``: the kernel that calls
it runs to its end with zeros in the place of values.

As printed::

    danger  fp32_vec_to_e2m1 would return the constant 0 on sm_90
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.check.question import Question
from ungate.check.remains import code_files
from ungate.model import Finding, Reached

__all__ = ["find"]

_NOISE = re.compile(r"//[^\n]*|/\*[\s\S]*?\*/|^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_CONSTANT = re.compile(
    r"\{\s*(?:[\w:<>\s*&]+\s+(?P<name>\w+)\s*(?:=\s*(?:0|\{\s*\})|\{\s*\})?\s*;\s*)?"
    r"return\s+(?P<value>[-+]?[\d.]+[fFuUlL]*|0x[0-9a-fA-F]+[uUlL]*|true|false|nullptr|\{\s*\}|[\w:]+\s*(?:\(\s*(?:0(?:\.0?f?)?)?\s*\)|\{\s*\})"
    r"|(?P=name))\s*;\s*\}"
)


def find(question: Question) -> Iterator[Finding]:
    """One finding for each device function of which no more than a constant is left."""
    for code in code_files(question):
        for function in code.functions:
            dropped = code.dropped(function.open, function.end)
            if function.kernel or not dropped or "__device__" not in function.head:
                continue
            left = " ".join(_NOISE.sub(" ", code.remaining(function.open, function.end)).split())
            constant = _CONSTANT.fullmatch(left)
            if constant is None:
                continue
            gates = [gate for branch in dropped for gate in code.gates(branch.directive.start, branch.start)]
            lines = ", ".join(f"line {gate.line}: {' '.join(gate.condition.split())}" for gate in gates)
            yield Finding(
                rule="constant",
                severity="danger",
                what=f"{function.name} would return the constant {constant['value']} on {question.target}",
                advice="Open its condition too if the instructions under it exist on the target, "
                "or leave all of them closed.",
                evidence=lines,
                file=code.file,
                line=code.line(function.start),
                end_line=code.line(function.end),
                reached=(gates[0].reached if gates else None) or Reached.UNKNOWN,
            )
