"""What is left of a C++ function for a target when some gates are opened and the others stay closed."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from ungate.check.question import Question
from ungate.model import Gate, Hop, Sense, Status
from ungate.source.cuda.directives import Branch, Reading, read
from ungate.source.cuda.functions import Function, functions

__all__ = ["CodeFile", "code_files", "launches"]

_LAUNCH = re.compile(r"<<<|\bcudaLaunch(?:Cooperative)?Kernel(?:Ex)?(?:C|ExC)?\s*\(|\bcuLaunchKernel(?:Ex)?\s*\(")


def launches(text: str, start: int, end: int) -> tuple[int, ...]:
    """The offsets at which kernels are launched."""
    return tuple(found.start() for found in _LAUNCH.finditer(text, start, end))


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[Reading, tuple[Function, ...]]:
    """Every rule looks at the same few files, once as they are and once as they would be."""
    return read(text), functions(text).items


class CodeFile:
    """One C or C++ file of the chain with the gates in it."""

    def __init__(self, question: Question, hop: Hop, text: str) -> None:
        self.file, self.text = hop.file, text
        self.reading, self.functions = _parsed(text)
        self._question = question
        self._gates = {gate.span[0]: gate for gate in hop.gates if gate.span != (0, 0)}

    def gates(self, start: int, end: int) -> tuple[Gate, ...]:
        """The gates whose deciding text lies in [start, end)."""
        return tuple(gate for offset, gate in sorted(self._gates.items()) if start <= offset < end)

    def line(self, offset: int) -> int:
        """The 1-based line of a byte offset."""
        return self.text.count("\n", 0, offset) + 1

    def holds(self, gate: Gate) -> bool | None:
        """Whether the gate's own condition is true for the target, opened gates counted as opened."""
        if gate.id in self._question.opened:
            passes: bool | None = True
        else:
            status = gate.status(self._question.target)
            passes = None if status is Status.UNKNOWN else status is Status.OPEN
        return passes if passes is None or gate.sense is Sense.ALLOW else not passes

    def kept(self, branch: Branch) -> bool | None:
        """Whether the branch's lines are compiled; None where that does not hang on a gate of the chain."""
        earlier = [self._own(self.reading.branches[index]) for index in branch.earlier]
        if True in earlier:
            return False
        if branch.directive.keyword == "else":
            return True if earlier and all(each is False for each in earlier) else None
        return self._own(branch)

    def _own(self, branch: Branch) -> bool | None:
        gate = self._gates.get(branch.directive.span[0])
        return self.holds(gate) if gate is not None else None

    def dropped(self, start: int, end: int) -> tuple[Branch, ...]:
        """The outermost branches in [start, end) that are not compiled."""
        found: list[Branch] = []
        for branch in self.reading.branches:
            apart = not found or branch.start >= found[-1].end
            if apart and start <= branch.start < end and self.kept(branch) is False:
                found.append(branch)
        return tuple(found)

    def remaining(self, start: int, end: int) -> str:
        """The text of [start, end) without the branches that are not compiled."""
        parts, position = [], start
        for branch in self.dropped(start, end):
            parts.append(self.text[position : branch.start])
            position = min(branch.end, end)
        parts.append(self.text[position:end])
        return "".join(parts)


def code_files(question: Question) -> Iterable[CodeFile]:
    """Every C and C++ file of the chain that holds a gate, once."""
    seen: set[str] = set()
    for hop in question.hops:
        path = question.path(hop.file)
        if hop.file in seen or not hop.gates or path is None or path.suffix == ".py":
            continue
        seen.add(hop.file)
        yield CodeFile(question, hop, path.read_bytes().decode("latin-1"))
