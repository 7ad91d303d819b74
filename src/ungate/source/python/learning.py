"""Which names of a Python file are answers about the architecture, learned in rounds from the pieces that speak."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from ungate.source.condition import speaks
from ungate.source.matcher import named
from ungate.source.python import members, names
from ungate.source.python.calls import apply
from ungate.source.python.evaluate import Evaluator, Frame
from ungate.source.python.flags import flag_archs
from ungate.source.python.leading import is_given, leading
from ungate.source.python.lookups import is_table, looked_up
from ungate.source.python.module import PythonModule, Recut, Unit
from ungate.source.python.operators import truth
from ungate.source.python.outline import Piece
from ungate.source.python.scopes import Binding, Scope, last
from ungate.source.python.tokens import holds, telling, tells, within, words
from ungate.source.python.values import FREE, ByArch, ClassValue, Each, FunctionValue, Instance, PartialValue, Value
from ungate.source.reader import Unreadable

__all__ = ["SHORTEST", "Learner", "Shared"]

_ROUNDS = 12
"""Steps by which names lead to names inside a file; what takes more is not followed, so that each file ends."""

_LONGEST_PREDICATE = 60
SHORTEST = 3
"""Letters of a name that is followed: ``_`` and its like occur in every file."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The answers of a file that others can read: ``names`` by importing them, ``anywhere`` through objects too."""

    names: frozenset[bytes]
    anywhere: frozenset[bytes]


def _may_answer(function: FunctionValue) -> bool:
    """Whether a function can be a predicate at all: short, and with something to return."""
    node = function.node
    if isinstance(node, ast.Lambda):
        return True
    if (node.end_lineno or 0) - node.lineno > _LONGEST_PREDICATE:
        return False
    start, end = function.scope.module.span(node, node, function.shift)
    return function.scope.module.data.find(b"return ", start, end) >= 0


def _imported(bindings: Sequence[Binding], wanted: set[bytes]) -> bool:
    """Whether a name is imported from something that says that it is an answer; else its own module says so."""
    return any(
        each.kind == "from"
        and (each.dotted.rpartition(":")[2].encode() in wanted or telling(each.dotted.rpartition(":")[2]))
        for each in bindings
    )


def _is_property(unit: Unit, name: bytes) -> bool:
    """Whether a member of a class is a property: such a name is read through objects in other files."""
    node = unit.body[0]
    return (
        isinstance(node, ast.FunctionDef)
        and node.name.encode() == name
        and any(last(each) in ("property", "cached_property") for each in node.decorator_list)
    )


class Learner:
    """Takes the pieces of one file that speak, and asks which of the names they bind are answers.

    ``marks`` are the offsets of the telling words of the file.
    """

    def __init__(self, module: PythonModule, evaluator: Evaluator, marks: list[int]) -> None:
        self.module = module
        self.evaluator = evaluator
        self.marks = marks
        self.unread: list[Unreadable] = []
        self.shared: set[bytes] = set()  # answers that other files can import
        self.anywhere: set[bytes] = set()  # properties, which are read through objects, and tables of other files
        self.followed: set[bytes] = set()
        self._able: set[bytes] = set()  # functions that may answer, with arguments perhaps
        self._given: set[bytes] = set()  # those of them that the file calls with arguments
        self._taken: dict[int, tuple[Unit, Scope]] = {}
        self._asked: set[tuple[int, str]] = set()

    def follow(self, new: frozenset[bytes]) -> None:
        """Follow these names, and those which turn out to be answers by that. Raises Recut."""
        marks = [] if self._taken else self.marks
        new -= self.followed
        for _ in range(_ROUNDS):
            if new:
                self.followed |= new
                marks = sorted([*marks, *(match.start() for match in named(new).finditer(self.module.data))])
            if not marks:
                break
            new = frozenset(self._ask(self._take(marks)))
            marks = []
        self.followed |= new
        self.evaluator.concentrate(None)

    def units(self) -> list[tuple[Unit, Scope]]:
        """The parsed pieces that were taken, in order, with all names followed. Raises Recut."""
        chosen = sorted(self._taken.items(), key=lambda item: item[0])
        return [(self.module.unit(unit.piece, self.followed), scope) for _, (unit, scope) in chosen]

    def _cuts(self, marks: list[int]) -> Iterator[tuple[Piece, Scope]]:
        """The pieces that hold one of these places, of classes their members."""
        for piece in self.module.pieces:
            if not holds(marks, piece.start, piece.end):
                continue
            if piece.kind == "class":
                try:
                    body = self.module.class_body(piece)
                except Recut:
                    raise
                except Unreadable as error:
                    self.unread.append(error)
                    continue
                if body.members:
                    for member in body.members:
                        if holds(marks, member.start, member.end):
                            yield member, body.scope
                    continue
            yield piece, self.module.scope

    def _take(self, marks: list[int]) -> list[tuple[Unit, Scope]]:
        """Parse the pieces that hold one of these places outside comments."""
        wanted = frozenset(self.followed)
        taken: list[tuple[Unit, Scope]] = []
        for piece, scope in self._cuts(marks):
            fresh = piece.start not in self._taken
            if fresh and all(self.module.is_hushed(mark) for mark in within(marks, piece.start, piece.end)):
                continue
            try:
                unit = self.module.unit(piece, wanted)  # again, where a long function was cut without these names
            except Recut:
                raise
            except Unreadable as error:
                if fresh:
                    self.unread.append(error)
                continue
            able = {node.name.encode() for node in unit.body if self._returns(node, unit, scope)} - self._able
            self._able |= able
            self._given |= {name for name in able if is_given(self.module, unit.body, name, _LONGEST_PREDICATE)}
            self._taken[piece.start] = (unit, scope)
            taken.append((unit, scope))
        return taken

    def _ask(self, taken: list[tuple[Unit, Scope]]) -> set[bytes]:
        """The names bound in these pieces that turn out to be answers."""
        wanted = frozenset(self.followed)
        found = self._given - wanted
        self.evaluator.concentrate({name.decode() for name in wanted})
        for unit, scope in taken:
            for name in self._answers(unit, scope):
                if scope.kind == "module":
                    self.shared.add(name)
                elif b"_" in name and self._is_member(unit, name):
                    self.anywhere.add(name)
                elif b"_" in name and any(getattr(each, "name", "").encode() == name for each in unit.body):
                    self.shared.add(name)
                if name not in wanted:
                    found.add(name)
        self.evaluator.forget()
        return found

    def _is_member(self, unit: Unit, name: bytes) -> bool:
        """Whether other files read a member of a class: a property, or what a platform can do."""
        if "platform" not in self.module.dotted and not self.module.dotted.endswith(".cuda"):
            return _is_property(unit, name)
        node = unit.body[0]
        return isinstance(node, ast.FunctionDef) and node.name.encode() == name

    def _tells(self, found: set[bytes]) -> bool:
        return tells(found) or not self.followed.isdisjoint(found) or not self._able.isdisjoint(found)

    def _candidates(self, unit: Unit, scope: Scope) -> Iterator[str]:
        """Names that a piece binds: flags, predicates and attributes of self whose text may come to an answer.

        A name that tells by its spelling is followed in any case, and need not be asked about.
        """
        for node in unit.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name.encode() in self._able:
                    yield node.name
                if scope.kind == "class":
                    inner = scope.inner(node, unit.shift).bindings
                    led = leading(self.module, inner, self._tells)
                    assigned = [name.removeprefix("self.") for name in inner if name.startswith("self.")]
                    yield from (name for name in assigned if name.encode() in led)
            elif not isinstance(node, ast.ClassDef):
                found = self.module.names_of(unit.piece, scope)
                led = leading(self.module, found, self._tells)
                for name, bound in found.items():
                    if name.encode() in led or _imported(bound, self.followed):
                        yield name
                break

    def _tabled(self, unit: Unit) -> Iterator[str]:
        """Names from elsewhere that a piece looks capabilities up in."""
        for name in looked_up(self.module.data, self.marks, unit.piece.start, unit.piece.end):
            if all(each.kind == "from" for each in self.module.lookup(name)):
                yield name

    def _returns(self, node: ast.stmt, unit: Unit, scope: Scope) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Whether what a function returns, or a test on the way there, may come to an answer by its text."""
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        led = leading(self.module, scope.inner(node, unit.shift).bindings, self._tells)
        waiting: list[ast.stmt] = [*node.body]
        for each in waiting:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                return True
            asked = (
                each.value if isinstance(each, ast.Return) else getattr(each, "test", getattr(each, "subject", None))
            )
            if isinstance(asked, ast.expr):
                start, end = self.module.span(asked, asked, unit.shift)
                found = set(words(self.module.data[start:end]))
                if not led.isdisjoint(found) or self._tells(found):
                    return True
            for name in ("body", "orelse", "finalbody"):
                waiting.extend(getattr(each, name, ()))
            for case in getattr(each, "cases", ()):
                waiting.extend(case.body)
        return False

    def _answers(self, unit: Unit, scope: Scope) -> Iterator[bytes]:
        """Names that a piece binds to an answer about the architecture."""
        for name in self._tabled(unit):
            if (0, name) not in self._asked and not telling(name):
                self._asked.add((0, name))
                if is_table(self._answer(self.module.scope, name)):
                    self.anywhere.add(name.encode())
        for name in self._candidates(unit, scope):
            if len(name) < SHORTEST or name.startswith("__") or telling(name) or (id(scope), name) in self._asked:
                continue
            self._asked.add((id(scope), name))
            value = self._answer(scope, name)
            if speaks(truth(value)) or (
                (scope.kind == "module" or _is_property(unit, name.encode()))
                and (isinstance(value, ByArch | Each) or flag_archs(value) is not None)
            ):
                yield name.encode()

    def _answer(self, scope: Scope, name: str) -> Value:
        """What a name of a scope answers, called without arguments where it is a function."""
        ev = self.evaluator
        ev.spent = 0
        if scope.kind == "class":
            node = scope.node
            assert isinstance(node, ast.ClassDef)
            value = members.class_member(ev, Instance(ClassValue(node, scope, node.name)), name)
        else:
            with ev.unfocused():
                value = names.name(ev, ast.Name(name, ast.Load()), Frame(scope, 1 << 30))
        if isinstance(value, FunctionValue) and not _may_answer(value):
            return FREE
        if isinstance(value, FunctionValue | PartialValue):
            with ev.unfocused():
                value = apply(ev, value, [], {}, name, 0)
        return value
