"""What is compiled for the target only because gates are opened."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ungate.check.question import Question
from ungate.check.remains import CodeFile
from ungate.model import Gate, Hop

__all__ = ["Emerging", "emerging_files"]

_NATIVE = frozenset({"source", "include", "kernel"})
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)


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


def _emerging(question: Question, hop: Hop, text: str, builds: tuple[Gate, ...]) -> Emerging:
    """What opening makes of one file: the branches it lets in, and the whole of it where ``builds`` let it be built."""
    after = CodeFile(question, hop, text)
    before = CodeFile(replace(question, opened=frozenset()), hop, text)
    gone = [(branch.start, branch.end) for branch in after.dropped(0, len(text))]
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
    builds = _builds(question)
    for hop in question.hops:
        path = question.path(hop.file)
        if hop.file in seen or path is None or path.suffix == ".py" or not (hop.gates or hop.file in builds):
            continue
        seen.add(hop.file)
        found = _emerging(question, hop, path.read_bytes().decode("latin-1"), builds.get(hop.file, ()))
        if found.new:
            yield found


def _builds(question: Question) -> Mapping[str, tuple[Gate, ...]]:
    """The native files of the modules that are built only because a gate is opened, each with those gates.

    A chain may lead through several modules. What stands behind one of them is its own, up to the next, and so are
    the headers that these files include: a header is listed once, under the first module that has it. What a module
    that is built for the target today has too is not new. What is built beside the chain is counted in where there
    is one module, else only by what includes it.
    """
    modules: list[tuple[tuple[Gate, ...], list[str]]] = []
    for hop in question.chain.hops:
        if hop.kind == "jit-module":
            modules.append((tuple(gate for gate in hop.gates if gate.id in question.opened), []))
        elif modules and hop.kind in _NATIVE:
            modules[-1][1].append(hop.file)
    if len(modules) == 1:
        modules[0][1].extend(hop.file for hop in question.chain.apart)
    today = {file for gates, files in modules if not gates for file in _with_headers(question, files)}
    found: dict[str, tuple[Gate, ...]] = {}
    for gates, files in modules:
        for file in _with_headers(question, files) if gates else ():
            if file not in today:
                found[file] = (*found.get(file, ()), *gates)
    return found


@functools.lru_cache(maxsize=512)
def _included(path: Path) -> tuple[str, ...]:
    """The names that a file includes; every rule asks."""
    return tuple(_INCLUDE.findall(path.read_text(encoding="latin-1")))


def _with_headers(question: Question, files: Iterable[str]) -> Iterable[str]:
    """The files, and those of the chain that they include, directly or through one another."""
    known = {hop.file for hop in question.hops if hop.kind in _NATIVE}
    left, seen = list(files), set[str]()
    while left:
        file = left.pop()
        if file in seen:
            continue
        seen.add(file)
        path = question.path(file)
        for name in _included(path) if path else ():
            tail = "/" + name.lstrip("./")
            left += [other for other in known - seen if other.endswith(tail)]
    return seen


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
