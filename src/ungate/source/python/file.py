"""A Python file for the patterns: the pieces of it that may speak of the architecture, and the questions there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from ungate.source.python.capability import archs_of_name
from ungate.source.python.evaluate import Evaluator, Frame
from ungate.source.python.module import PythonModule, Recut, Unit
from ungate.source.python.outline import Piece
from ungate.source.python.questions import Question, questions
from ungate.source.python.scopes import Binding, Scope
from ungate.source.python.tokens import Wording, telling
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

_ROUNDS = 4


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


def _borrowed(name: str, bindings: list[Binding], wanted: set[bytes]) -> bool:
    """Whether a name is imported and nothing says that it is an answer; its own module says it where it is one."""
    return all(
        each.kind == "import"
        or (each.kind == "from" and not _spoken(name, wanted) and not _spoken(each.dotted.rpartition(":")[2], wanted))
        for each in bindings
    )


def _spoken(name: str, wanted: set[bytes]) -> bool:
    return telling(name) or name.encode() in wanted


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

    @property
    def current(self) -> bool:
        """Whether the module still has the pieces that it had: a look-up from elsewhere may find a cut to be wrong."""
        return self.module.is_whole == self._was_whole

    def _cuts(self) -> list[tuple[Piece, Scope]]:
        found: list[tuple[Piece, Scope]] = []
        for piece in self.module.pieces:
            if piece.kind == "class":
                try:
                    body = self.module.class_body(piece)
                except Recut:
                    raise
                except Unreadable as error:
                    self.unread.append(error)
                    continue
                if body.members:
                    found.extend((member, body.scope) for member in body.members)
                    continue
            found.append((piece, self.module.scope))
        return found

    @cached_property
    def units(self) -> list[tuple[Unit, Scope]]:
        """The parsed pieces of interest, in order; grows by the flags that the file itself defines."""
        try:
            return self._chosen()
        except Recut:
            return self._chosen()

    def _chosen(self) -> list[tuple[Unit, Scope]]:
        chosen: dict[int, tuple[Unit, Scope]] = {}
        wanted = set(self.foreign)
        shared: set[bytes] = set()
        fresh = True
        data = self.module.data
        cuts = [(piece, scope, Wording(data[piece.start : piece.end])) for piece, scope in self._cuts()]
        for _ in range(_ROUNDS):
            if not fresh:
                break
            fresh = False
            for piece, scope, wording in cuts:
                if piece.start in chosen:
                    continue
                if not wording.speaks(wanted, code=True):
                    continue
                try:
                    unit = self.module.unit(piece, wanted)
                except Recut:
                    raise
                except Unreadable as error:
                    self.unread.append(error)
                    continue
                chosen[piece.start] = (unit, scope)
                self.evaluator.concentrate({name.decode() for name in wanted})
                for name in self._answers(unit, scope, wanted):
                    if len(name) < SHORTEST:
                        continue
                    if scope.kind == "module":
                        shared.add(name)
                    if name not in wanted:
                        wanted.add(name)
                        fresh = True
        self.answers = frozenset(wanted - self.foreign)
        self.shared = frozenset(shared)
        self.evaluator.concentrate(None)
        return [(self.module.unit(unit.piece, wanted), scope) for _, (unit, scope) in sorted(chosen.items())]

    def _answers(self, unit: Unit, scope: Scope, wanted: set[bytes]) -> Iterator[bytes]:
        """Names that a piece binds to an answer about the architecture: flags, predicates and attributes of self."""
        names: dict[str, None] = {}
        for node in unit.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names[node.name] = None
                inner = scope.inner(node, unit.shift)
                if scope.kind == "class":
                    for bound in inner.bindings:
                        if bound.startswith("self."):
                            names[bound.removeprefix("self.")] = None
            elif not isinstance(node, ast.ClassDef):
                found = self.module.names_of(unit.piece, scope)
                names.update((name, None) for name, bound in found.items() if not _borrowed(name, bound, wanted))
                break
        for name in names:
            if name.startswith("__"):
                continue
            value = self.answer(scope, name)
            if is_answer(value) or (
                scope.kind == "module" and (isinstance(value, ByArch | Each) or flag_archs(value) is not None)
            ):
                yield name.encode()

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
        self.evaluator.concentrate({name.decode() for name in (*self.answers, *self.foreign)})
        for unit, scope in units:
            found.extend(questions(self.module, self.evaluator, unit, scope))
        self.evaluator.concentrate(None)
        return found

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

    def walk(self, holding: re.Pattern[bytes], *kinds: type[ast.AST]) -> Iterator[tuple[ast.AST, Scope, Unit]]:
        """The nodes of these types in the pieces whose text matches ``holding``, with their scope, in order."""
        data = self.module.data
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
