"""A kernel that would be compiled without a body.

The body stands under a condition that stays closed for the target, and nothing stands in an ``#else``. Such a kernel
can be launched; it does nothing, reports no error, and its outputs are whatever was in memory.

As printed::

    danger  lamport_style_one_shot_all_reduce_norm_kernel would have no body on sm_120
            flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh:709-873  reached: no
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.check.question import Question
from ungate.model import Finding, Gate, Hop, Reached, Sense
from ungate.source.cuda.directives import Reading, read
from ungate.source.cuda.functions import Function, functions

__all__ = ["find"]

_SILENT = re.compile(r"//[^\n]*|/\*[\s\S]*?\*/|^[ \t]*#(?:\\\r?\n|[^\n])*|[{};\s]", re.MULTILINE)
_DECLARES = re.compile(
    r"\b(?:using\s+(?:namespace\s+)?[^;{}]*|namespace\s+\w+\s*=\s*[^;{}]*|typedef\s+[^;{}]*|static_assert\s*\([^;]*\))\s*;"
)


def find(question: Question) -> Iterator[Finding]:
    """One finding for each kernel, in the files of the chain, of which nothing would be left."""
    seen: set[str] = set()
    for hop in question.hops:
        closed = [gate for gate in hop.gates if gate.span != (0, 0) and question.closed(gate)]
        gates = [gate for gate in closed if gate.sense is Sense.ALLOW]
        path = question.path(hop.file)
        if not gates or path is None or path.suffix == ".py" or hop.file in seen:
            continue
        seen.add(hop.file)
        text = path.read_bytes().decode("latin-1")
        yield from _in_file(question, hop, text, gates)


def _in_file(question: Question, hop: Hop, text: str, gates: list[Gate]) -> Iterator[Finding]:
    reading = read(text)
    by_start = {gate.span[0]: gate for gate in gates}
    for function in functions(text).items:
        if not function.kernel:
            continue
        inside = [gate for start, gate in by_start.items() if function.open <= start < function.end]
        if not inside or not _empty(text, reading, function, inside):
            continue
        first, last = text.count("\n", 0, function.start) + 1, text.count("\n", 0, function.end) + 1
        gate = min(inside, key=lambda each: each.line)
        yield Finding(
            rule="hollow",
            severity="danger",
            what=f"{function.name} would have no body on {question.target}",
            advice=f"Open the condition in line {gate.line} too, or leave all of them closed.",
            evidence=f"line {gate.line}: {' '.join(gate.condition.split())} lets through {gate.passes}; no #else",
            file=hop.file,
            line=first,
            end_line=last,
            reached=gate.reached or Reached.UNKNOWN,
        )


def _empty(text: str, reading: Reading, function: Function, closed: list[Gate]) -> bool:
    """Whether nothing but declarations is left of the body once the closed branches are taken out."""
    starts = {gate.span[0] for gate in closed}
    cut: list[tuple[int, int]] = []
    for branch in reading.branches:
        if branch.directive.span[0] in starts:
            cut.append((branch.start, branch.end))
    body, position = [], function.open
    for start, end in sorted(cut):
        if start >= position:
            body.append(text[position:start])
            position = min(end, function.end)
    body.append(text[position : function.end])
    left = _DECLARES.sub("", _SILENT.sub(_blank, "".join(body)))
    return not _SILENT.sub("", left)


def _blank(match: re.Match[str]) -> str:
    """Comments and directives become a blank; what separates statements stays, so that declarations end."""
    return match[0] if len(match[0]) == 1 else " "
