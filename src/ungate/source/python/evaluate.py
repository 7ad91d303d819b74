"""What a Python expression comes to, read for all known architectures at once.

Nothing is executed: expressions are interpreted over constants and per-arch values, names are followed
to what they are bound to, and predicates are read from their definitions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ungate.model import KNOWN_ARCHS
from ungate.source.condition import All, Always, Condition, Either, Free, Not, evaluate, speaks
from ungate.source.python import calls, members, names
from ungate.source.python.capability import Capability
from ungate.source.python.operators import binary, choose, compare, display, settle, subscript, truth
from ungate.source.python.scopes import Scope, is_transparent, last
from ungate.source.python.seeds import CAPABILITY
from ungate.source.python.tables import UNKNOWN_KEY
from ungate.source.python.tokens import telling
from ungate.source.python.values import FOG, FREE, ByArch, Each, FunctionValue, Value, is_answer, lift
from ungate.source.python.world import World

__all__ = ["Evaluator", "Frame"]

_BUDGET = 6000
_UNROLLED = 64


@dataclass(eq=False, slots=True)
class Frame:
    """Where an expression stands. ``env`` holds names with known values: of an interpreted call, or of a comprehension.

    ``line`` (in the file) tells which bindings come before. ``outer`` is the frame around a comprehension or closure.
    """

    scope: Scope
    line: int = 0
    env: dict[str, Value] | None = None
    outer: Frame | None = None
    depth: int = 0


class _Unfocused:
    """Written out, as it is entered tens of thousands of times a scan."""

    __slots__ = ("before", "ev")

    def __init__(self, ev: Evaluator) -> None:
        self.ev = ev
        self.before = ev.focus

    def __enter__(self) -> None:
        self.ev.focus = None

    def __exit__(self, *_: object) -> None:
        self.ev.focus = self.before


@dataclass(eq=False)
class Evaluator:
    """Evaluates over a world of modules. ``attributes`` tells what an attribute of an unknown object comes to.

    ``memo`` holds what names come to, ``read`` what expressions at their own place do; each with its node, so that the
    identity of a node that was made for a question is not given to another. ``tables`` are the names of the tables in
    which a capability was looked up, ``common`` the names that are answers somewhere: a function of another file may
    read such a name although the file that calls it does not. ``refused`` are the names that were not followed.
    """

    world: World
    attributes: Mapping[str, Value] = field(default_factory=dict)
    focus: Collection[str] | None = None
    busy: set[Any] = field(default_factory=set)
    memo: dict[Any, Value] = field(default_factory=dict)
    read: dict[tuple[int, int, int], tuple[ast.AST, Value]] = field(default_factory=dict)
    spent: int = 0
    pruned: int = 0
    epoch: int = 0
    tables: set[str] = field(default_factory=set)
    common: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)

    def concentrate(self, names: Collection[str] | None) -> None:
        """From now on follow, of the names of modules and classes, only these and telling ones (None: all)."""
        self.focus = names
        self.epoch += 1

    def worth(self, name: str) -> bool:
        """Whether a name of a module or class is followed: always, unless the evaluator is focused on a few."""
        if self.focus is None or name in self.focus or name in self.common or telling(name):
            return True
        self.pruned += 1
        self.refused.add(name)
        return False

    def unfocused(self) -> _Unfocused:
        """A context manager: follow every name inside the block."""
        return _Unfocused(self)

    def value(self, node: ast.AST | None, frame: Frame) -> Value:
        """The value of an expression; FREE where it has nothing to do with the architecture."""
        if node is None:
            return FREE
        self.spent += 1
        if self.spent > _BUDGET or frame.depth > 40:
            return FREE
        handler = _HANDLERS.get(type(node))
        if handler is None:
            return FREE
        if frame.depth or frame.env is not None or self.busy:
            return handler(self, node, frame)
        key = (id(node), frame.line, self.epoch if self.focus is not None else -1)
        ready = self.read.get(key)
        if ready is not None:
            return ready[1]
        value = handler(self, node, frame)
        if self.spent <= _BUDGET:
            self.read[key] = (node, value)
        return value

    def is_loose(self, node: ast.expr, frame: Frame) -> bool:
        """Whether a flag or predicate, where it is true for an arch, may be false for a reason beside the arch."""
        if not isinstance(node, ast.Name | ast.Attribute | ast.Call):
            return False
        value = self.value(node, frame)
        return isinstance(value, ByArch) and value.loose and is_answer(value)

    def beside(self, node: ast.expr, frame: Frame, other: Value) -> Value:
        """The value of what meets a capability in a comparison or a table: a name is followed whatever it is."""
        value = self.value(node, frame)
        if value is not FREE or self.focus is None or not isinstance(other, ByArch | Each):
            return value
        named = node.func if isinstance(node, ast.Call) and not node.args else node
        if not isinstance(named, ast.Name | ast.Attribute | ast.Subscript):
            return value
        with self.unfocused():
            return self.value(node, frame)

    def forget(self) -> None:
        """Drop the values of expressions; those of names are kept."""
        self.read.clear()

    def close(self) -> None:
        """Let go of every value and every module; the evaluator is of no use after that."""
        self.memo.clear()
        self.read.clear()
        self.world.close()

    def fresh(self, node: ast.AST, frame: Frame) -> Value:
        """:meth:`value` with a new budget: for the expressions that the patterns ask about."""
        self.spent = 0
        return self.value(node, frame)

    def condition(self, node: ast.expr, frame: Frame) -> Condition:
        """An expression used as a truth value, as a tree whose leaves carry their text."""
        match node:
            case ast.BoolOp(op=ast.And(), values=values):
                return All(tuple(self.condition(value, frame) for value in values))
            case ast.BoolOp(op=ast.Or(), values=values):
                return Either(tuple(self.condition(value, frame) for value in values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                denied = Not(self.condition(operand, frame))
                return Either((denied, Free(""))) if self.is_loose(operand, frame) else denied
            case ast.NamedExpr(value=value):
                return self.condition(value, frame)
            case ast.Call(args=[handed]) if is_transparent(node):
                return self.condition(handed, frame)
            case _:
                value = self.value(node, frame)
                if isinstance(value, bool) and not isinstance(node, ast.Constant):
                    return Free("")
                return truth(value)


def _constant(_: Evaluator, node: Any, __: Frame) -> Value:
    return node.value if node.value is not Ellipsis else FREE


def _bool_op(ev: Evaluator, node: Any, frame: Frame) -> Value:
    values = [ev.value(each, frame) for each in node.values]
    joins = isinstance(node.op, ast.And)
    # a constant that is worked out (a setting, a size) is taken as :meth:`Evaluator.condition` takes it: free
    terms = tuple(
        Free("")
        if isinstance(value, bool) and not isinstance(each, ast.Constant)
        else ev.condition(each, frame)
        if isinstance(each, ast.UnaryOp)
        else truth(value)
        for each, value in zip(node.values, values, strict=True)
    )
    tree: Condition = All(terms) if joins else Either(terms)
    for value in values:
        if isinstance(value, Each):
            return value
        if isinstance(value, ByArch) and not is_answer(value) and not (joins and speaks(tree)):
            return value
    spoken = tuple(dict.fromkeys(name for value in values if isinstance(value, ByArch) for name in value.names))
    if not speaks(tree):
        decisive = isinstance(node.op, ast.Or)
        if any(isinstance(value, bool) and value is decisive for value in values):
            return decisive
        return FREE
    return settle(tree, spoken)


def _unary(ev: Evaluator, node: Any, frame: Frame) -> Value:
    value = ev.value(node.operand, frame)
    if isinstance(node.op, ast.Not):
        if isinstance(value, Each):
            return settle(Not(value.when))
        if isinstance(value, ByArch) and not is_answer(value):
            return settle(Not(truth(value)), value.names)
        return lift(lambda item: not item, value) if value is not FREE else FREE
    if isinstance(node.op, ast.USub):
        return lift(lambda item: -item, value)
    return FREE


def _compare(ev: Evaluator, node: Any, frame: Frame) -> Value:
    result: Value = None
    left = ev.value(node.left, frame)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = ev.beside(comparator, frame, left)
        if left is FREE and result is None:
            left = ev.beside(node.left, frame, right)
        if left is FREE and result is None and _is_arch_name(right) and _TARGET.search(last(node.left)) is not None:
            left = CAPABILITY
        answer = compare(op, left, right)
        result = answer if result is None else settle(All((truth(result), truth(answer))))
        if isinstance(right, dict | list | tuple) and isinstance(op, ast.In | ast.NotIn) and isinstance(left, ByArch):
            ev.tables.add(last(comparator))
        left = right
    return result


def _is_arch_name(value: Value) -> bool:
    """Whether a value is the unmistakable name of an arch, or a display of such names."""
    if isinstance(value, list | tuple) and not isinstance(value, Capability):
        return bool(value) and all(_is_arch_name(each) for each in value)
    return isinstance(value, str) and _ARCH_NAME.fullmatch(value) is not None


_TARGET = re.compile(r"target|arch|(?:^|_)sm(?:_|$)", re.I)
"""What is compared with ``"sm_103a"`` under such a name is the name of an arch; a pipeline's name may look like one."""
_ARCH_NAME = re.compile(r"sm_?(?:[89]\d|1[0-2]\d)[af]?")


def _bin_op(ev: Evaluator, node: Any, frame: Frame) -> Value:
    return binary(node.op, ev.value(node.left, frame), ev.value(node.right, frame))


def _if_exp(ev: Evaluator, node: Any, frame: Frame) -> Value:
    return choose(settle_test(ev, node.test, frame), ev.value(node.body, frame), ev.value(node.orelse, frame))


def settle_test(ev: Evaluator, node: ast.expr, frame: Frame) -> Value:
    """A test as a value: per-arch, constant or FREE."""
    if not isinstance(node, ast.BoolOp | ast.UnaryOp | ast.NamedExpr):
        value = ev.value(node, frame)
        tree = truth(value)
        if speaks(tree):
            return settle(tree)
        return value if isinstance(value, bool | int | str | tuple | list | dict) or value is None else FREE
    tree = ev.condition(node, frame)
    return settle(tree) if speaks(tree) else FREE


def _sequence(make: type) -> Callable[[Evaluator, Any, Frame], Value]:
    def build(ev: Evaluator, node: Any, frame: Frame) -> Value:
        items: list[Value] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                inner = ev.value(element.value, frame)
                if isinstance(inner, list | tuple | set | frozenset):
                    items.extend(inner)
                elif isinstance(inner, Each):
                    return inner
                else:
                    items.append(FREE)
            else:
                items.append(ev.value(element, frame))
        return display(items, make)

    return build


def _dict(ev: Evaluator, node: Any, frame: Frame) -> Value:
    made: dict[Any, Value] = {}
    if len(node.keys) > 400:
        return FREE
    for key, item in zip(node.keys, node.values, strict=True):
        name = ev.value(key, frame) if key is not None else FREE
        try:
            made[name if isinstance(name, str | int | tuple) else UNKNOWN_KEY] = ev.value(item, frame)
        except TypeError:
            made[UNKNOWN_KEY] = FREE
    return made


def _joined(ev: Evaluator, node: Any, frame: Frame) -> Value:
    parts = []
    for part in node.values:
        value = ev.value(part.value if isinstance(part, ast.FormattedValue) else part, frame)
        if value is FREE or (isinstance(part, ast.FormattedValue) and part.format_spec is not None):
            return FREE
        parts.append(value)

    def text(*pieces: Value) -> Value:
        return "".join(str(piece.number) if isinstance(piece, Capability) else str(piece) for piece in pieces)

    return lift(text, *parts)


def _subscript(ev: Evaluator, node: Any, frame: Frame) -> Value:
    of = ev.value(node.value, frame)
    if isinstance(node.slice, ast.Slice):
        return of if isinstance(of, ByArch | Each) else FREE
    index = ev.value(node.slice, frame)
    if of is FREE and isinstance(index, str) and telling(index):
        with ev.unfocused():
            of = ev.value(node.value, frame)
    of = ev.beside(node.value, frame, index) if of is FREE else of
    if isinstance(of, dict) and isinstance(index, ByArch):
        ev.tables.add(last(node.value))
    return subscript(of, index)


def _comprehension(ev: Evaluator, node: Any, frame: Frame) -> Value:
    if len(node.generators) == 1:
        if (listed := _unrolled(ev, node, frame)) is not None:
            return listed
        if (whole := _copied(ev, node, frame)) is not None:
            return whole
    env: dict[str, Value] = {}
    inner = Frame(frame.scope, frame.line, env, frame, frame.depth + 1)
    tests: list[Condition] = []
    for generator in node.generators:
        names.unpack(ev, generator.target, calls.element(ev, generator.iter, inner), env)
        tests.extend(ev.condition(test, inner) for test in generator.ifs)
    element = ev.value(node.elt, inner)
    when: Condition = All(tuple(tests)) if tests else Always(True)
    if isinstance(element, ByArch) or speaks(when):
        return Each(element, when)
    return FREE


def _copied(ev: Evaluator, node: Any, frame: Frame) -> Value:
    """A capability whose numbers are read one by one, as in ``tuple(int(part) for part in capability)``; else None."""
    (generator,) = node.generators
    element = node.elt
    while isinstance(element, ast.Call) and isinstance(element.func, ast.Name) and element.func.id in ("int", "str"):
        if len(element.args) != 1:
            return None
        element = element.args[0]
    match generator.target, element:
        case ast.Name(id=given), ast.Name(id=used) if given == used and not generator.ifs:
            of = ev.value(generator.iter, frame)
            if isinstance(of, ByArch) and all(isinstance(item, Capability) for item in of.items):
                return of
    return None


def _unrolled(ev: Evaluator, node: Any, frame: Frame) -> Value:
    """A comprehension over constants as a list, per arch where its tests ask for the arch; None for others."""
    (generator,) = node.generators
    of = ev.value(generator.iter, frame)
    if not isinstance(of, list | tuple | dict | range) or isinstance(of, Capability) or not 0 < len(of) <= _UNROLLED:
        return None
    found: list[tuple[Condition, Value]] = []
    for item in of:
        env: dict[str, Value] = {}
        inner = Frame(frame.scope, frame.line, env, frame, frame.depth + 1)
        names.unpack(ev, generator.target, item, env)
        tests = [settle_test(ev, test, inner) for test in generator.ifs]
        if False not in tests:
            found.append((All(tuple(truth(test) for test in tests)), ev.value(node.elt, inner)))
    if not any(speaks(when) for when, _ in found):
        return [value for _, value in found]

    def at(index: int, arch: int) -> Value:
        answers = [evaluate(when, arch) for when, _ in found]
        if None in answers:
            return FOG
        kept = [value for answer, (_, value) in zip(answers, found, strict=True) if answer]
        return [value.items[index] if isinstance(value, ByArch) else value for value in kept]

    return ByArch(tuple(at(index, arch) for index, arch in enumerate(KNOWN_ARCHS)))


def _named(ev: Evaluator, node: Any, frame: Frame) -> Value:
    return ev.value(node.value, frame)


def _lambda(_: Evaluator, node: Any, frame: Frame) -> Value:
    return FunctionValue(
        node, frame.scope, "<lambda>", frame.scope.shift, closure=frame if frame.env is not None else None
    )


_HANDLERS: dict[type[ast.AST], Callable[[Evaluator, Any, Frame], Value]] = {
    ast.Constant: _constant,
    ast.Name: names.name,
    ast.Attribute: members.attribute,
    ast.Call: calls.call,
    ast.BoolOp: _bool_op,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BinOp: _bin_op,
    ast.IfExp: _if_exp,
    ast.Tuple: _sequence(tuple),
    ast.List: _sequence(list),
    ast.Set: _sequence(list),
    ast.Dict: _dict,
    ast.JoinedStr: _joined,
    ast.Subscript: _subscript,
    ast.GeneratorExp: _comprehension,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.NamedExpr: _named,
    ast.Lambda: _lambda,
    ast.Starred: _named,
    ast.Await: _named,
}
