"""Which way a test of Python code goes for one architecture, as far as its gates decide it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ungate.model import Gate, Sense
from ungate.trace.conditions import guards
from ungate.trace.corpus import Corpus
from ungate.trace.gates import Gates
from ungate.trace.module import Scope

__all__ = ["Branches", "Verdict"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """``holds``: True, False, or None where something else than the architecture decides. ``gate`` is the one that
    lets the architecture through or holds it back, None where no gate has a say."""

    holds: bool | None
    gate: Gate | None = None


_OPEN = Verdict(None)


class Branches:
    """Answers for tests of the files under trace. A gate is known by the bytes it spans."""

    def __init__(self, corpus: Corpus, gates: Gates) -> None:
        self.corpus = corpus
        self.gates = gates
        self._spans: dict[str, dict[tuple[int, int], Gate]] = {}
        self._starts: dict[str, list[int]] = {}

    def gate(self, scope: Scope, first: ast.expr, last: ast.expr) -> Gate | None:
        """The decided gate that spans exactly these expressions."""
        spans = self._of(scope.module.file)
        return spans.get((self._offset(scope, first.lineno, first.col_offset), self._end(scope, last)))

    def within(self, scope: Scope, node: ast.expr) -> tuple[Gate, ...]:
        """The decided gates inside an expression."""
        start, end = self._offset(scope, node.lineno, node.col_offset), self._end(scope, node)
        spans = self._of(scope.module.file).items()
        return tuple(gate for (first, last), gate in spans if start <= first and last <= end)

    def told(self, scope: Scope, test: ast.expr, arch: int) -> Verdict:
        """What a test comes to for an architecture."""
        gate = self.gate(scope, test, test)
        if gate is not None:
            return Verdict((arch in gate.passes.yes) == (gate.sense is Sense.ALLOW), gate)
        match test:
            case ast.BoolOp(op=operator, values=values):
                return _joined(list(self._parts(scope, values, arch)), isinstance(operator, ast.And))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.told(scope, operand, arch)
                return Verdict(None if inner.holds is None else not inner.holds, inner.gate)
            case ast.NamedExpr(value=value):
                return self.told(scope, value, arch)
            case ast.Constant(value=bool() as value):
                return Verdict(value)
            case _:
                return _OPEN

    def come_to(self, scope: Scope, line: int, arch: int) -> Verdict:
        """Whether a line of a function is come to: False where a gate keeps the architecture from it; ``gate`` is then
        that one, and else the last that lets it through."""
        through: Gate | None = None
        free = False
        for test, expected in guards(scope, line):
            found = self.told(scope, test, arch)
            if found.holds is not None and found.holds != expected:
                return Verdict(False, found.gate)
            free = free or found.holds is None
            through = found.gate or through
        return Verdict(None if free else True, through)

    def _parts(self, scope: Scope, values: list[ast.expr], arch: int) -> Iterator[Verdict]:
        """One answer an operand; a gate that spans several operands of an ``and`` or ``or`` answers for them."""
        at = 0
        while at < len(values):
            run = next(
                (
                    (end, gate)
                    for end in range(len(values), at, -1)
                    if (gate := self.gate(scope, values[at], values[end - 1]))
                ),
                None,
            )
            if run is None:
                yield self.told(scope, values[at], arch)
                at += 1
            else:
                end, gate = run
                yield Verdict((arch in gate.passes.yes) == (gate.sense is Sense.ALLOW), gate)
                at = end

    def _of(self, file: str) -> dict[tuple[int, int], Gate]:
        if file not in self._spans:
            self._spans[file] = {
                gate.span: gate for gate in self.gates.of(file) if gate.span != (0, 0) and gate.passes.decided
            }
            text = self.corpus.text(file)
            starts = [0]
            at = text.find(b"\n")
            while at >= 0:
                starts.append(at + 1)
                at = text.find(b"\n", at + 1)
            self._starts[file] = starts
        return self._spans[file]

    def _offset(self, scope: Scope, line: int, column: int) -> int:
        self._of(scope.module.file)
        return self._starts[scope.module.file][line - 1] + column

    def _end(self, scope: Scope, node: ast.expr) -> int:
        return self._offset(scope, node.end_lineno or node.lineno, node.end_col_offset or 0)


def _joined(parts: list[Verdict], every: bool) -> Verdict:
    """The answers of the operands of an ``and`` (``every``) or an ``or``, joined."""
    deciding = next((part for part in parts if part.holds is not None and part.holds != every), None)
    if deciding is not None:
        return deciding
    gate = next((part.gate for part in parts if part.gate is not None), None)
    return Verdict(every if all(part.holds is not None for part in parts) else None, gate)
