"""What a call comes to: predicates are read from their bodies, wrappers are looked through."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ungate.model import KNOWN_ARCHS
from ungate.source.python import names
from ungate.source.python.builtin import builtin, method
from ungate.source.python.interpret import run
from ungate.source.python.scopes import is_transparent, last
from ungate.source.python.seeds import CAPABILITY, OTHER_MAKERS, is_capability_call, part_of_capability
from ungate.source.python.values import (
    FOG,
    FREE,
    ByArch,
    ClassValue,
    Each,
    FunctionValue,
    Instance,
    MethodValue,
    ModuleValue,
    PartialValue,
    Value,
    is_answer,
)
from ungate.source.reader import Unreadable

if TYPE_CHECKING:
    from ungate.source.python.evaluate import Evaluator, Frame

__all__ = ["call", "element", "interpret"]

_DEPTH = 24


def element(ev: Evaluator, node: ast.AST, frame: Frame) -> Value:
    """One element of an iterated expression."""
    value = ev.value(node, frame)
    if isinstance(value, Each):
        return value.element
    if isinstance(value, ByArch) and isinstance(node, ast.Name | ast.Attribute):
        return FREE
    return FREE


def call(ev: Evaluator, node: Any, frame: Frame) -> Value:
    """A call expression."""
    function = ev.value(node.func, frame)
    spelled = _last(node.func)
    if isinstance(function, ModuleValue) and function.dotted.startswith("builtins."):
        if spelled == "dict" and not node.args and node.keywords:
            return {each.arg: ev.value(each.value, frame) for each in node.keywords if each.arg}
        arguments = [ev.value(each, frame) for each in node.args]
        return builtin(ev, spelled, arguments, node, frame)
    if is_transparent(node):
        return ev.value(node.args[0], frame)
    if isinstance(function, ByArch | Each) and not isinstance(node.func, ast.Name | ast.Attribute):
        return function
    looks_up = function is FREE and _looks_up(spelled, node)
    if (function is FREE or isinstance(function, ModuleValue)) and not looks_up and _ignores(spelled, node):
        return FREE
    arguments = _arguments(ev, node, frame)
    if FREE in arguments and isinstance(function, FunctionValue) and ev.focus is not None and spelled in ev.focus:
        with ev.unfocused():  # the file's own predicate, asked about a number that is written elsewhere
            told = _arguments(ev, node, frame)
        arguments = [new if isinstance(new, int | tuple) else old for old, new in zip(arguments, told, strict=True)]
    if looks_up and isinstance(arguments[0], ByArch):
        with ev.unfocused():
            function = ev.value(node.func, frame)
    if spelled == "get" and len(arguments) == 2 and _is_empty(node.args[1]):
        arguments[1] = ()
    if (
        isinstance(function, MethodValue)
        and isinstance(function.of, dict)
        and isinstance(next(iter(arguments), None), ByArch)
    ):
        ev.tables.add(last(node.func.value))
    keywords = {each.arg: ev.value(each.value, frame) for each in node.keywords if each.arg}
    value = apply(ev, function, arguments, keywords, spelled, frame.depth)
    if _tells_nothing(value) and is_capability_call(spelled) and not _elsewhere(node.func):
        value = CAPABILITY
    if is_answer(value):
        return ByArch(value.items, (_spelling(node.func) or spelled,), value.loose)
    return value


def _arguments(ev: Evaluator, node: ast.Call, frame: Frame) -> list[Value]:
    """The arguments by position; ``*capability`` gives two."""
    found: list[Value] = []
    for each in node.args:
        value = ev.value(each, frame)
        if isinstance(each, ast.Starred) and isinstance(value, ByArch) and value.items == CAPABILITY.items:
            found.extend(names.follow(value, (index,)) for index in (0, 1))
        else:
            found.append(value)
    return found


def _tells_nothing(value: Value) -> bool:
    """Whether what was read from a function's body leaves it open for every arch what the function gives.

    One that asks several makers' drivers in turn says by its name alone what it reads.
    """
    return value is FREE or value is None or (isinstance(value, ByArch) and all(item is FOG for item in value.items))


@functools.lru_cache(maxsize=1 << 16)
def _asks(spelled: str) -> bool:
    """Whether the call of an unknown function of this name can come to something by its name and arguments."""
    return (
        spelled == "partial"
        or is_capability_call(spelled)
        or spelled.endswith(_QUESTIONS)
        or _RELATION.search(spelled) is not None
        or names.by_name(spelled) is not FREE
    )


def _ignores(spelled: str, node: ast.Call) -> bool:
    """Whether a call of an unknown function comes to nothing whatever its arguments are.

    One that is given a single function may be its decorator.
    """
    if len(node.args) == 1 and not node.keywords and isinstance(node.args[0], _MAY_BE_FUNCTION):
        return False
    return not _asks(spelled)


def _looks_up(spelled: str, node: ast.Call) -> bool:
    """Whether a call may be ``table.get(capability, default)`` of a table whose name is not followed."""
    return (
        spelled == "get"
        and isinstance(node.func, ast.Attribute)
        and 1 <= len(node.args) <= 2
        and not isinstance(node.args[0], ast.Constant | ast.JoinedStr)
    )


def _is_empty(node: ast.expr) -> bool:
    """Whether an expression is a new empty collection."""
    match node:
        case ast.Call(func=ast.Name(id="set" | "frozenset" | "tuple" | "list" | "dict"), args=[], keywords=[]):
            return True
        case _:
            return False


_QUESTIONS = ("is_device_capability", "has_device_capability", "is_device_capability_family", "is_sm_version")
_MAY_BE_FUNCTION = (ast.Name, ast.Attribute, ast.Call, ast.Lambda, ast.IfExp, ast.Subscript, ast.NamedExpr)


def apply(
    ev: Evaluator, function: Value, arguments: list[Value], keywords: Mapping[str, Value], spelled: str, depth: int
) -> Value:
    """Call a value."""
    match function:
        case FunctionValue():
            return interpret(ev, function, tuple(arguments), keywords, depth)
        case PartialValue():
            joined = {**function.keywords, **keywords}
            return apply(ev, function.function, [*function.args, *arguments], joined, spelled, depth)
        case MethodValue(of=of, name=name):
            return method(of, name, arguments)
        case ClassValue():
            return _construct(ev, function, arguments, keywords)
        case ModuleValue(dotted=dotted):
            return _outside(dotted, arguments, keywords)
        case ByArch() | Each():
            # a property or probe table entry that is called, or an attribute known by name only
            return function
        case _:
            if len(arguments) == 1 and not keywords and isinstance(arguments[0], FunctionValue | PartialValue):
                return arguments[0]
            return _by_question(spelled, arguments)


def _last(node: ast.AST) -> str:
    match node:
        case ast.Name(id=spelled):
            return spelled
        case ast.Attribute(attr=attr):
            return attr
        case _:
            return ""


def _spelling(node: ast.AST) -> str:
    return _last(node)


def _elsewhere(node: ast.AST) -> bool:
    """Whether a capability is asked of another maker's module (``torch.xpu``)."""
    return any(isinstance(each, ast.Attribute) and each.attr in OTHER_MAKERS for each in ast.walk(node))


def _outside(dotted: str, arguments: list[Value], keywords: Mapping[str, Value]) -> Value:
    """A call of something that is not among the files."""
    parts = dotted.split(".")
    last = parts[-1]
    if last == "partial" and arguments:
        return PartialValue(arguments[0], tuple(arguments[1:]), dict(keywords))
    if len(arguments) == 1 and isinstance(arguments[0], FunctionValue | PartialValue):
        return arguments[0]
    if any(part in OTHER_MAKERS for part in parts):
        return FREE
    if is_capability_call(last):
        return CAPABILITY
    if last == "Version" or ("version" in last and not last.endswith(_QUESTIONS)):
        return FREE
    return _by_question(last, arguments)


def _by_question(spelled: str, arguments: list[Value]) -> Value:
    """``is_device_capability(100)`` and its kin, where their definition is not among the files."""
    from ungate.source.python.operators import compare

    wanted = next((each for each in arguments if isinstance(each, int | tuple) and not isinstance(each, bool)), None)
    if wanted is None:
        named = names.by_name(spelled)
        return named if is_answer(named) or part_of_capability(spelled) is not None else FREE
    if spelled.endswith("is_device_capability"):
        return compare(ast.Eq(), CAPABILITY, wanted)
    if spelled.endswith("is_sm_version"):
        pair = tuple(each for each in arguments if isinstance(each, int) and not isinstance(each, bool))
        return compare(ast.Eq(), CAPABILITY, pair if len(pair) == 2 else wanted)
    if spelled.endswith("has_device_capability"):
        return compare(ast.GtE(), CAPABILITY, wanted)
    if spelled.endswith("is_device_capability_family") and isinstance(wanted, int):
        return ByArch(tuple(arch // 10 == wanted // 10 for arch in KNOWN_ARCHS), (spelled,))
    if (asked := _RELATION.search(spelled)) is not None:
        numbers = [each for each in arguments if isinstance(each, int) and not isinstance(each, bool)]
        if numbers and 5 <= numbers[0] <= 13:
            wanted = (numbers[0], numbers[1] if len(numbers) > 1 else 0)
        return compare(_RELATIONS[asked[1]](), CAPABILITY, wanted)
    return FREE


_RELATIONS: dict[str, type[ast.cmpop]] = {
    **dict.fromkeys(("ge", "geq", "gte", "at_least"), ast.GtE),
    **dict.fromkeys(("le", "leq", "lte", "at_most"), ast.LtE),
    **dict.fromkeys(("eq", "equals"), ast.Eq),
    "gt": ast.Gt,
    "lt": ast.Lt,
}
_RELATION = re.compile(
    rf"(?:capability|compute_cap|sm_version|cuda_arch|compute_arch)_({'|'.join(sorted(_RELATIONS, reverse=True))})$"
)
"""``cuda_capability_geq(9, 0)`` and its like: the relation is in the name."""


def _construct(ev: Evaluator, of: ClassValue, arguments: list[Value], keywords: Mapping[str, Value]) -> Value:
    fields = [
        each.target.id
        for each in _class_statements(of)
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]
    given = {**dict(zip(fields, arguments, strict=False)), **keywords}
    if {"major", "minor"} <= set(given):
        major, minor = given["major"], given["minor"]
        if isinstance(major, int) and isinstance(minor, int):
            return (major, minor)  # a bound to compare with, not the capability of a device
        if isinstance(major, ByArch) and isinstance(minor, ByArch):
            return CAPABILITY
    return Instance(of, {key: value for key, value in given.items() if value is not FREE})


def _class_statements(of: ClassValue) -> list[ast.stmt]:
    owner = of.scope.owner
    if owner is None or not owner.members:
        return of.node.body
    module = of.scope.module
    try:
        return [node for piece in owner.members if piece.kind == "other" for node in module.unit(piece).body]
    except Unreadable:
        return []


def interpret(
    ev: Evaluator, function: FunctionValue, arguments: tuple[Value, ...], keywords: Mapping[str, Value], depth: int
) -> Value:
    """Read what a function returns for these arguments from its body."""
    if depth > _DEPTH:
        return FREE
    key = _key(function, arguments, keywords)
    if key is not None and key in ev.memo:
        return ev.memo[key]
    passing = (key, ev.epoch)
    if key is not None and passing in ev.memo:
        return ev.memo[passing]
    pruned = ev.pruned
    mark = (id(function.node), "run")
    if mark in ev.busy:
        return FREE
    ev.busy.add(mark)
    try:
        value = run(ev, function, arguments, keywords, depth)
    finally:
        ev.busy.discard(mark)
    if is_answer(value) and not any(item is True or item is FOG for item in value.items):
        value = FREE  # what no architecture passes is closed for another reason
    if key is not None and ev.spent < 5000:
        ev.memo[key if ev.pruned == pruned else passing] = value
    return value


def _key(function: FunctionValue, arguments: tuple[Value, ...], keywords: Mapping[str, Value]) -> Any:
    if function.closure is not None or (isinstance(function.bound, Instance) and function.bound.fields):
        return None
    plain = (int, str, tuple, bool, type(None), ByArch)
    for value in (*arguments, *keywords.values()):
        if value is not FREE and value is not FOG and not isinstance(value, plain):
            return None
    key = ("call", id(function.node), arguments, tuple(sorted(keywords.items(), key=lambda item: item[0])))
    try:
        hash(key)
    except TypeError:
        return None
    return key
