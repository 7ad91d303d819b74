"""What is compiled for the target only because gates are opened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ungate.check.question import Question
from ungate.check.remains import CodeFile
from ungate.model import Gate, Hop

__all__ = ["Emerging", "emerging", "emerging_files"]


@dataclass(frozen=True, slots=True)
class Emerging:
    """A native file of the chain: ``new`` are byte ranges [start, end) that are compiled for the first time.

    ``gates`` are the opened gates that let them in.
    """

    code: CodeFile
    new: tuple[tuple[int, int], ...]
    gates: tuple[Gate, ...]

    def holds(self, offset: int) -> bool:
        """Whether the offset lies in what is newly compiled."""
        return any(start <= offset < end for start, end in self.new)


def emerging(question: Question, hop: Hop, text: str) -> Emerging:
    """What opening makes of one file: the branches it lets in, and the whole of it where the module was not built."""
    after = CodeFile(question, hop, text)
    before = CodeFile(replace(question, opened=frozenset()), hop, text)
    gone = [(branch.start, branch.end) for branch in after.dropped(0, len(text))]
    builds = _builds(question)
    if builds:
        whole, gates = [(0, len(text))], builds
    else:
        branches = before.dropped(0, len(text))
        whole = [(branch.start, branch.end) for branch in branches]
        let_in = [gate for branch in branches for gate in after.gates(branch.directive.start, branch.start)]
        gates = tuple(gate for gate in let_in if gate.id in question.opened)
    return Emerging(after, tuple(_without(whole, gone)), gates)


def emerging_files(question: Question) -> Iterable[Emerging]:
    """Every native file of the chain of which something is newly compiled, once."""
    seen: set[str] = set()
    for hop in question.hops:
        path = question.path(hop.file)
        if hop.file in seen or path is None or path.suffix == ".py" or not (hop.gates or _builds(question)):
            continue
        seen.add(hop.file)
        found = emerging(question, hop, path.read_bytes().decode("latin-1"))
        if found.new:
            yield found


def _builds(question: Question) -> tuple[Gate, ...]:
    """The opened gates that let a module be built at all."""
    hops = [hop for hop in question.hops if hop.kind == "jit-module"]
    return tuple(gate for hop in hops for gate in hop.gates if gate.id in question.opened)


def _without(whole: list[tuple[int, int]], gone: list[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    for start, end in whole:
        position = start
        for first, last in gone:
            if last <= position or first >= end:
                continue
            if first > position:
                yield position, first
            position = max(position, last)
        if position < end:
            yield position, end
