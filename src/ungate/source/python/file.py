"""A Python file for the patterns: the pieces of it that may speak of the architecture, and the questions there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeGuard

from ungate.source.condition import speaks as speaks_of_arch
from ungate.source.matcher import Matcher, named
from ungate.source.python.capability import archs_of_name
from ungate.source.python.evaluate import Evaluator, Frame
from ungate.source.python.leading import is_given, leading
from ungate.source.python.lookups import is_table, looked_up, written
from ungate.source.python.module import PythonModule, Recut, Unit
from ungate.source.python.operators import truth
from ungate.source.python.outline import Piece
from ungate.source.python.questions import Question, questions
from ungate.source.python.scopes import Binding, Scope, last
from ungate.source.python.tokens import holds, places, speaks, telling, tells, words
from ungate.source.python.values import (
    FREE,
    ByArch,
    ClassValue,
    Each,
    FunctionValue,
    Instance,
    PartialValue,
    Value,
    is_answer,
)
from ungate.source.reader import Unreadable

__all__ = ["SHORTEST", "PythonFile", "flag_archs"]

_ROUNDS = 12
"""Steps by which names lead to names inside a file; what takes more is not followed, so that each file ends."""


_LONGEST_PREDICATE = 60
SHORTEST = 3
"""Letters of a name that is followed: ``_`` and its like occur in every file."""
_FLAG = re.compile(r"(?:arch|code)[=:, ]+\[?\"?(?:sm|compute|lto)_([0-9]{2,3}[af]?)\b")


def flag_archs(value: Value) -> frozenset[int] | None:
    """The architectures that a list of compiler flags names as targets; None where it names none."""
    if not isinstance(value, list | tuple):
        return None
    found: set[int] = set()
    seen = False
    for item in value:
        if isinstance(item, str) and ("arch" in item or "code" in item):
            for target in _FLAG.findall(item):
                archs = archs_of_name(f"sm_{target}")
                if archs is not None:
                    seen = True
                    found |= archs
    return frozenset(found) if seen else None


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


_Flat = dict[type[ast.AST], list[tuple[int, ast.AST, Scope]]]
_KINDS = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.keyword),
    *(ast.Call, ast.Dict, ast.List, ast.Tuple, ast.Constant, ast.Name, ast.Compare, ast.Expr, ast.Raise),
)


def _flatten(unit: Unit, scope: Scope) -> _Flat:
    """The nodes of a piece by type, each with its number in order of place and the scope it stands in."""
    made: _Flat = {kind: [] for kind in _KINDS}
    stack: list[tuple[ast.AST, Scope]] = [(node, scope) for node in reversed(unit.body)]
    number = 0
    while stack:
        node, inside = stack.pop()
        kind = type(node)
        wanted = made.get(kind)
        if wanted is not None:
            number += 1
            wanted.append((number, node, inside))
            if kind is ast.Constant or kind is ast.Name:
                continue
            if kind is ast.FunctionDef or kind is ast.ClassDef or kind is ast.AsyncFunctionDef:
                inside = inside.inner(node, unit.shift)
        children: list[tuple[ast.AST, Scope]] = []
        for value in node.__dict__.values():
            its = value.__class__
            if its is list:
                children.extend((each, inside) for each in value if each.__class__ not in _BARE)
            elif its not in _BARE:
                children.append((value, inside))
        children.reverse()
        stack.extend(children)
    return made


_BARE = frozenset(
    [int, str, type(None), bool]
    + [
        kind
        for base in (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
        for kind in base.__subclasses__()
    ]
)
"""What stands in the fields of a syntax node beside nodes of interest; the value of a constant is not looked at."""


class PythonFile:
    """One module with an evaluator. ``names`` are flags and predicates defined elsewhere that are worth a look."""

    def __init__(self, module: PythonModule, evaluator: Evaluator, names: frozenset[bytes] = frozenset()) -> None:
        self.module = module
        self.evaluator = evaluator
        self.foreign = names
        self.unread: list[Unreadable] = []
        self._was_whole = module.is_whole
        self._flat: dict[int, _Flat] = {}
        self._taken: dict[int, tuple[Unit, Scope]] = {}
        self._asked: set[tuple[int, str]] = set()
        self._able: set[bytes] = set()  # functions that may answer, with arguments perhaps
        self._wanted: set[bytes] = set()
        self._shared: set[bytes] = set()
        self._units: list[tuple[Unit, Scope]] | None = None
        self._tables: frozenset[bytes] = frozenset()
        self.told: frozenset[bytes] | None = (
            frozenset()
        )  # the answers of other files; None where all names are followed

    @property
    def current(self) -> bool:
        """Whether the module still has the pieces that it had: a look-up from elsewhere may find a cut to be wrong."""
        return self.module.is_whole == self._was_whole

    def follow(self, names: frozenset[bytes]) -> None:
        """Look for further names that are answers elsewhere."""
        if not names <= self.foreign:
            self.foreign |= names
            self._units = None

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

    @property
    def units(self) -> list[tuple[Unit, Scope]]:
        """The parsed pieces of interest, in order; grows by the flags that the file itself defines."""
        if self._units is None:
            try:
                self._units = self._chosen()
            except Recut:
                self._taken, self._asked, self._able, self._wanted, self._shared = {}, set(), set(), set(), set()
                self._units = self._chosen()
        return self._units

    @property
    def answers(self) -> frozenset[bytes]:
        """The names that the file binds to an answer and whose spelling does not tell it."""
        self.units  # noqa: B018 - parsing is what finds them
        return frozenset(self._wanted - self.foreign)

    @property
    def shared(self) -> frozenset[bytes]:
        """Those of them that other files can import."""
        self.units  # noqa: B018 - parsing is what finds them
        return frozenset(self._shared)

    @cached_property
    def _marks(self) -> list[int]:
        return places(self.module.data)

    def _chosen(self) -> list[tuple[Unit, Scope]]:
        marks = [] if self._taken else self._marks
        new = frozenset(self.foreign - self._wanted)
        for _ in range(_ROUNDS):
            if new:
                self._wanted |= new
                marks = sorted([*marks, *(match.start() for match in named(new).finditer(self.module.data))])
            if not marks:
                break
            new = frozenset(self._grow(marks))
            marks = []
        self._wanted |= new
        self.evaluator.concentrate(None)
        chosen = sorted(self._taken.items(), key=lambda item: item[0])
        return [(self.module.unit(unit.piece, self._wanted), scope) for _, (unit, scope) in chosen]

    def _grow(self, marks: list[int]) -> set[bytes]:
        """Take the pieces that hold one of these places; returns the names that turn out to be answers."""
        wanted = frozenset(self._wanted)
        taken: list[tuple[Unit, Scope]] = []
        found: set[bytes] = set()
        for piece, scope in self._cuts(marks):
            fresh = piece.start not in self._taken
            if fresh and not speaks(self.module.data[piece.start : piece.end], wanted, code=True):
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
            self._taken[piece.start] = (unit, scope)
            taken.append((unit, scope))
            if able and scope.kind == "module":
                found |= {name for name in able if is_given(self.module, unit.body, name, _LONGEST_PREDICATE)}
        self.evaluator.concentrate({name.decode() for name in wanted})
        for unit, scope in taken:
            for name in self._answers(unit, scope):
                if scope.kind == "module" or (b"_" in name and self._is_member(unit, name)):
                    self._shared.add(name)
                if name not in wanted:
                    found.add(name)
        self.evaluator.forget()
        return found

    def _tells(self, found: set[bytes]) -> bool:
        return tells(found) or not self._wanted.isdisjoint(found) or not self._able.isdisjoint(found)

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
                    if name.encode() in led or _imported(bound, self._wanted):
                        yield name
                break

    def _tabled(self, unit: Unit) -> Iterator[str]:
        """Names from elsewhere that a piece looks capabilities up in."""
        for name in looked_up(self.module.data, self._marks, unit.piece.start, unit.piece.end):
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
                if is_table(self.answer(self.module.scope, name)):
                    self._shared.add(name.encode())
        for name in self._candidates(unit, scope):
            if len(name) < SHORTEST or name.startswith("__") or telling(name) or (id(scope), name) in self._asked:
                continue
            self._asked.add((id(scope), name))
            value = self.answer(scope, name)
            if speaks_of_arch(truth(value)) or (
                (scope.kind == "module" or self._is_property(unit, name.encode()))
                and (isinstance(value, ByArch | Each) or flag_archs(value) is not None)
            ):
                yield name.encode()

    def _is_member(self, unit: Unit, name: bytes) -> bool:
        """Whether other files read a member of a class: a property, or what a platform can do."""
        if "platform" not in self.module.dotted and not self.module.dotted.endswith(".cuda"):
            return self._is_property(unit, name)
        node = unit.body[0]
        return isinstance(node, ast.FunctionDef) and node.name.encode() == name

    def _is_property(self, unit: Unit, name: bytes) -> bool:
        """Whether a member of a class is a property: such a name is read through objects in other files."""
        node = unit.body[0]
        return (
            isinstance(node, ast.FunctionDef)
            and node.name.encode() == name
            and any(last(each) in ("property", "cached_property") for each in node.decorator_list)
        )

    def answer(self, scope: Scope, name: str) -> Value:
        """What a name of a scope answers, called without arguments where it is a function."""
        from ungate.source.python import names
        from ungate.source.python.calls import apply

        ev = self.evaluator
        ev.spent = 0
        if scope.kind == "class":
            node = scope.node
            assert isinstance(node, ast.ClassDef)
            value = names.class_member(ev, Instance(ClassValue(node, scope, node.name)), name)
        else:
            with ev.unfocused():
                value = names.name(ev, ast.Name(name, ast.Load()), Frame(scope, 1 << 30))
        if isinstance(value, FunctionValue) and not _may_answer(value):
            return FREE
        if isinstance(value, FunctionValue | PartialValue):
            with ev.unfocused():
                value = apply(ev, value, [], {}, name, 0)
        return value

    @cached_property
    def questions(self) -> list[Question]:
        """Every test of the architecture in the file."""
        found: list[Question] = []
        units = self.units
        followed = self.answers | self.foreign
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
        word = node.id.encode()
        if word not in self.answers and word not in self.foreign and not telling(node.id):
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

    def walk(self, holding: Matcher, *kinds: type[ast.AST]) -> Iterator[tuple[ast.AST, Scope, Unit]]:
        """The nodes of these types in the pieces whose text matches ``holding``, with their scope, in order."""
        data = self.module.data
        if holding.search(data) is None:
            return
        for unit, scope in self.units:
            if holding.search(data, unit.piece.start, unit.piece.end) is None:
                continue
            sorted_out = self._flat.get(unit.piece.start)
            if sorted_out is None:
                sorted_out = self._flat[unit.piece.start] = _flatten(unit, scope)
            if len(kinds) == 1:
                for _, node, inside in sorted_out.get(kinds[0], ()):
                    yield node, inside, unit
                continue
            chosen = [entry for kind in kinds for entry in sorted_out.get(kind, ())]
            chosen.sort(key=lambda entry: entry[0])
            for _, node, inside in chosen:
                yield node, inside, unit

    def frame(self, node: ast.AST, scope: Scope, unit: Unit) -> Frame:
        """Where a node stands, for the evaluator."""
        return Frame(scope, getattr(node, "lineno", 1) + unit.shift)
