"""A Python file for the patterns: the pieces of it that may speak of the architecture, and the questions there."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

from ungate.source.matcher import Matcher, named
from ungate.source.python.evaluate import Evaluator, Frame
from ungate.source.python.flags import flag_archs
from ungate.source.python.learning import Learner, Shared
from ungate.source.python.lookups import written
from ungate.source.python.module import PythonModule, Recut, Unit
from ungate.source.python.nodes import around
from ungate.source.python.questions import Question, questions
from ungate.source.python.scopes import Scope
from ungate.source.python.tokens import places, telling
from ungate.source.python.values import ByArch, is_answer
from ungate.source.reader import Unreadable

__all__ = ["PythonFile"]


class PythonFile:
    """One module with an evaluator. ``names`` are flags and predicates defined elsewhere that are worth a look."""

    def __init__(self, module: PythonModule, evaluator: Evaluator, names: frozenset[bytes] = frozenset()) -> None:
        self.module = module
        self.evaluator = evaluator
        self.foreign = names
        self._marks = places(module.data)
        self._learner = Learner(module, evaluator, self._marks)
        self._units: list[tuple[Unit, Scope]] | None = None
        self._tables: frozenset[bytes] = frozenset()
        self.told: frozenset[bytes] | None = (
            frozenset()
        )  # the answers of other files; None where all names are followed

    @property
    def unread(self) -> list[Unreadable]:
        """What could not be parsed."""
        return self._learner.unread

    def follow(self, names: frozenset[bytes]) -> None:
        """Look for further names that are answers elsewhere."""
        if not names <= self.foreign:
            self.foreign |= names
            self._units = None

    def _learn(self) -> Learner:
        """The learner, which has followed every name so far."""
        try:
            self._learner.follow(self.foreign)
        except Recut:
            self._again()
        return self._learner

    def _again(self) -> None:
        self._learner = Learner(self.module, self.evaluator, self._marks)
        self._learner.follow(self.foreign)

    @property
    def shared(self) -> Shared:
        """The names whose spelling does not tell it that the file binds to an answer, and that others can read."""
        learner = self._learn()
        return Shared(frozenset(learner.shared), frozenset(learner.anywhere))

    @property
    def units(self) -> list[tuple[Unit, Scope]]:
        """The parsed pieces of interest, in order; grows by the flags that the file itself defines."""
        if self._units is None:
            learner = self._learn()
            try:
                self._units = learner.units()
            except Recut:
                self._again()
                self._units = self._learner.units()
        return self._units

    @cached_property
    def questions(self) -> list[Question]:
        """Every test of the architecture in the file."""
        found: list[Question] = []
        units = self.units
        followed = frozenset(self._learner.followed)
        marks = self._marks
        if followed:
            marks = sorted([*marks, *(match.start() for match in named(followed).finditer(self.module.data))])
        self.evaluator.concentrate({name.decode() for name in followed})
        self.evaluator.tables.clear()
        for unit, scope in units:
            found.extend(questions(self.module, self.evaluator, unit, scope, marks))
            self.evaluator.forget()
        self.evaluator.concentrate(None)
        tables = (name for name in self.evaluator.tables if name and written(self.module.data, name))
        self._tables = frozenset(name.encode() for name in tables)
        self.follow(self._tables)
        return found

    def looks_up(self, name: str) -> bool:
        """Whether a capability is looked up in the table of that name, here or in a file that it is imported into."""
        word = name.encode()
        if self.told is None:  # every name of the file is followed: which ones are looked up elsewhere is not known
            return word in self._tables or name.lstrip("_").isupper()
        return word in self._tables or word in self.told

    def flags(self, node: ast.Name, scope: Scope) -> frozenset[int] | None:
        """The targets of a list of compiler flags that is read by the name of a module-level constant."""
        if node.id.encode() not in self._learner.followed and not telling(node.id):
            return None
        inside: Scope | None = scope
        while inside is not None and inside.kind != "module":
            if any(each.kind != "from" for each in inside.bindings.get(node.id, ())):
                return None
            inside = inside.parent
        with self.evaluator.unfocused():
            return flag_archs(self.evaluator.fresh(node, Frame(scope, 1 << 30)))

    def is_test(self, node: ast.expr, scope: Scope, unit: Unit) -> bool:
        """Whether an expression answers a question about the architecture."""
        return is_answer(self.evaluator.fresh(node, self.frame(node, scope, unit)))

    def differs(self, node: ast.expr, scope: Scope, unit: Unit) -> bool:
        """Whether an expression has another value for another architecture, as a major number has."""
        return isinstance(self.evaluator.fresh(node, self.frame(node, scope, unit)), ByArch)

    def walk(
        self, holding: Matcher, *kinds: type[ast.AST], naming: bool = False
    ) -> Iterator[tuple[ast.AST, Scope, Unit]]:
        """The nodes of these types whose lines match ``holding``, with their scope, in order.

        With ``naming`` also those whose lines hold a followed name or a telling word, in pieces that match.
        """
        data = self.module.data
        if holding.search(data) is None:
            return
        wanted = frozenset(kinds)
        starts = self.module.starts
        for unit, scope in self.units:
            start, end = unit.piece.start, unit.piece.end
            found = {match.start() for match in holding.finditer(data, start, end)}
            if not found:
                continue
            if naming:
                if self._learner.followed:
                    names = named(frozenset(self._learner.followed))
                    found.update(match.start() for match in names.finditer(data, start, end))
                found.update(mark for mark in self._marks if start <= mark < end)
            lines = sorted({bisect_right(starts, each) for each in found})
            for node, inside in around(unit, scope, lines, wanted):
                yield node, inside, unit

    def frame(self, node: ast.AST, scope: Scope, unit: Unit) -> Frame:
        """Where a node stands, for the evaluator."""
        return Frame(scope, getattr(node, "lineno", 1) + unit.shift)
