"""Python's operators on values that are read for all architectures at once."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ungate.model import KNOWN_ARCHS
from ungate.source.condition import Always, Condition, evaluate, has_free, speaks
from ungate.source.python.capability import Capability, NoCapability, capability_number
from ungate.source.python.tables import held, identity, presence
from ungate.source.python.values import FOG, FREE, ByArch, Each, Value, as_condition, is_answer, lift

__all__ = [
    "binary",
    "choose",
    "compare",
    "display",
    "either_free",
    "settle",
    "subscript",
    "truth",
]

_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
}
_INDICES = range(len(KNOWN_ARCHS))
_MINORS = tuple(arch % 10 for arch in KNOWN_ARCHS)
_FLIP = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def _pair(op: type[ast.cmpop], left: Value, right: Value) -> Value:
    """One comparison of two concrete values; raises NoCapability where it says nothing about the arch."""
    if isinstance(left, Capability) and isinstance(right, Capability):
        return FOG
    if isinstance(right, Capability) and not isinstance(left, Capability):
        return _pair(_FLIP.get(op, op), right, left)
    if isinstance(left, Capability):
        one, other = left.beside(right)
        return _ORDER[op](one, other)
    if any(part is FOG for side in (left, right) if isinstance(side, tuple) for part in side):
        return FOG
    if isinstance(left, bool) != isinstance(right, bool) or isinstance(left, str) != isinstance(right, str):
        raise NoCapability
    if left is None or right is None:
        raise NoCapability
    if op in (ast.Eq, ast.NotEq) and isinstance(left, str):
        return _alike(left, right) is (op is ast.Eq)
    return _ORDER[op](left, right)


def _within(left: Value, right: Value) -> Value:
    if isinstance(left, tuple) and any(part is FOG for part in left):
        return FOG
    if isinstance(right, Capability):
        return _pair(ast.Eq, right, left)
    if isinstance(left, Capability):
        if isinstance(right, str):
            raise NoCapability
        answers = []
        for item in right:
            try:
                answers.append(_pair(ast.Eq, left, item))
            except NoCapability:
                continue
        if not answers:
            raise NoCapability  # what is empty where it is written is filled elsewhere
        return any(answers)
    if not len(right) or (isinstance(right, str) and not isinstance(left, str)):
        raise NoCapability
    if not isinstance(right, str) and right and all(isinstance(item, str) for item in right) != isinstance(left, str):
        raise NoCapability
    if isinstance(left, str) and not isinstance(right, str):
        return any(_alike(left, item) for item in right)
    return left in right


def _alike(left: str, right: Value) -> bool:
    """Whether two texts are the same, or name the same architecture, one with the suffix of its family or of its own.

    Where a text is put together from a capability's numbers, the suffix is among what was not followed.
    """
    if left == right:
        return True
    named = _NAME.fullmatch(left), _NAME.fullmatch(right) if isinstance(right, str) else None
    if named[0] is None or named[1] is None:
        return False
    return named[0][1] == named[1][1] and "" in (named[0][2], named[1][2])


_NAME = re.compile(r"((?:sm|compute)_?\d{2,3})([af]?)")


def compare(op: ast.cmpop, left: Value, right: Value) -> Value:
    """``left op right``; FREE where the operands are not about the architecture."""
    if isinstance(left, Each) or isinstance(right, Each):
        if isinstance(right, Each) and isinstance(op, ast.In | ast.NotIn) and not isinstance(left, Each):
            return compare(ast.Eq() if isinstance(op, ast.In) else ast.NotEq(), right.element, left)
        return FREE
    if isinstance(op, ast.Is | ast.IsNot):
        return identity(op, left, right)
    if isinstance(op, ast.In | ast.NotIn) and left is FREE and isinstance(right, ByArch):
        return held(op, right)
    if left is FREE or right is FREE:
        return FREE
    if left is FOG or right is FOG:
        return FOG if isinstance(left, ByArch) or isinstance(right, ByArch) else FREE
    silent = False

    lacks = isinstance(left, ByArch) and any(item is not None and item is not FOG for item in left.items)

    def one(a: Value, b: Value) -> Value:
        nonlocal silent
        if (
            a is None
            and lacks
            and isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn)
            and isinstance(right, str | list | tuple)
        ):
            return isinstance(op, ast.NotEq | ast.NotIn)  # no name was found for this arch, so it is none of those
        try:
            if isinstance(op, ast.In | ast.NotIn):
                answer = _within(a, b)
            else:
                answer = _pair(type(op), a, b)
        except (NoCapability, TypeError):
            silent = True
            return FOG
        if answer is FOG:
            return FOG
        return not answer if isinstance(op, ast.NotIn) else bool(answer)

    result = lift(one, left, right)
    if silent:
        return FREE
    if _is_same(left, right):
        return FOG  # two readings of the capability: which of them is the greater is not in the source
    if isinstance(result, ByArch) and len(set(map(id, result.items))) == 1 and _MINORS in (_items(left), _items(right)):
        return FREE  # every minor number lies between 0 and 10
    return result


def _items(value: Value) -> Value:
    return value.items if isinstance(value, ByArch) else None


def _is_same(left: Value, right: Value) -> bool:
    """Whether both sides are the capability, or its major, of every arch: a device's and one that is asked for."""
    if not isinstance(left, ByArch) or not isinstance(right, ByArch):
        return False
    return all(
        one is not FOG
        and other is not FOG
        and (one == other or (_number(one) is not None and _number(one) == _number(other)))
        for one, other in zip(left.items, right.items, strict=True)
    )


def binary(op: ast.operator, left: Value, right: Value) -> Value:
    """``left op right`` for arithmetic; a list keeps what is known of it when something unknown is added."""
    if isinstance(op, ast.Add):
        if right is FREE and isinstance(left, list | tuple | Each):
            return left
        if left is FREE and isinstance(right, list | tuple | Each):
            return right
        if isinstance(left, Each) or isinstance(right, Each):
            return left if isinstance(left, Each) else right
    function = _ARITHMETIC.get(type(op))
    if function is None:
        return FREE

    def one(a: Value, b: Value) -> Value:
        if isinstance(a, Capability) and isinstance(b, int):
            return function(a.number, b)
        if isinstance(a, Capability) and isinstance(op, ast.Add) and isinstance(b, str):
            return a
        return function(a, b)

    return lift(one, left, right)


def subscript(of: Value, index: Value) -> Value:
    """``of[index]``."""
    if isinstance(of, Each):
        return FREE

    def one(container: Value, at: Value) -> Value:
        if isinstance(container, dict) and isinstance(at, Capability):
            for key, item in container.items():
                try:
                    if _pair(ast.Eq, at, key) is True:
                        return item
                except NoCapability:
                    continue
            raise KeyError(at)
        if isinstance(container, Capability) and isinstance(at, slice):
            return container
        return container[at]

    if isinstance(of, dict | list | tuple) and not isinstance(index, ByArch):
        try:
            return one(of, index)
        except Exception:
            return FREE
    return lift(one, of, index)


def display(items: list[Value], make: type) -> Value:
    """A tuple, list or set display: per-arch elements make it per-arch, unless something in it is unknown."""
    if any(isinstance(item, ByArch) for item in items) and not any(item is FREE for item in items):

        def build(*parts: Value) -> Value:
            if make is tuple and len(parts) == 2 and all(type(part) is int for part in parts) and 7 <= parts[0] <= 12:
                return Capability(parts)
            return make(parts)

        if make is tuple:
            rows = [tuple(each.items[at] if isinstance(each, ByArch) else each for each in items) for at in _INDICES]
            names = tuple(dict.fromkeys(name for each in items if isinstance(each, ByArch) for name in each.names))
            # a part that is not known for an arch does not hide the others
            made = (FOG if all(part is FOG for part in row) else build(*row) for row in rows)
            return ByArch(tuple(made), names)
        return lift(build, *items)
    try:
        return make(items)
    except TypeError:
        return FREE


def settle(condition: Condition, names: tuple[str, ...] = ()) -> Value:
    """A condition as a value."""
    if not speaks(condition):
        return condition.value if isinstance(condition, Always) else FREE
    answers = tuple(FOG if (answer := evaluate(condition, arch)) is None else answer for arch in KNOWN_ARCHS)
    return ByArch(answers, names, has_free(condition))


def either_free(one: Value, other: Value) -> Value:
    """The value where a test that is not about the architecture chooses: the one that speaks of it."""
    if isinstance(one, Each) or isinstance(other, Each):
        return one if isinstance(one, Each) else other
    if isinstance(one, ByArch) and isinstance(other, ByArch):
        return lift(_common, one, other)
    if isinstance(one, ByArch) or isinstance(other, ByArch):
        value = one if isinstance(one, ByArch) else other
        return replace(value, loose=True) if is_answer(value) else value
    if one is FREE or other is FREE:
        return FREE
    try:
        return one if type(one) is type(other) and one == other else FREE
    except Exception:
        return FREE


def _common(one: Value, other: Value) -> Value:
    """What two ways to one value have in common: the same capability may come in two notations."""
    if isinstance(one, Capability) or isinstance(other, Capability):
        plain, held = (other, one) if isinstance(one, Capability) else (one, other)
        return plain if plain == held or _number(plain) == _number(held) else FOG
    return one if one == other else FOG


def _number(value: Value) -> int | None:
    return value.number if isinstance(value, Capability) else capability_number(value)


def choose(test: Value, one: Value, other: Value) -> Value:
    """``one if test else other``, where the test may be per-arch, constant or free."""
    if isinstance(test, Each):
        test = settle(test.when)
    if not isinstance(test, ByArch):
        if test is FREE or test is FOG:
            return either_free(one, other)
        try:
            return one if test else other
        except Exception:
            return FREE
    if one is FREE and other is FREE:
        return FREE
    picked = []
    for index, answer in enumerate(test.items):
        sides = [side.items[index] if isinstance(side, ByArch) else side for side in (one, other)]
        if answer is FOG or answer is FREE:
            picked.append(sides[0] if sides[0] is sides[1] else FOG)
            continue
        chosen, left = (sides[0], sides[1]) if answer else (sides[1], sides[0])
        if chosen is FREE:
            # what is not about the arch drops out: it holds in a conjunction and fails in a disjunction
            chosen = FREE if left is FREE else not left if isinstance(left, bool) or left is None else FREE
        picked.append(chosen)
    if any(item is FREE for item in picked):
        return FREE
    answers = all(item is FOG or item is None or isinstance(item, bool) for item in picked)
    if not answers and not _are_capabilities(picked) and not _are_reasons(picked):
        return FREE
    concrete = [item for item in picked if item is not FOG]
    if concrete and len(concrete) == len(picked) and all(item == concrete[0] for item in concrete):
        return concrete[0]
    loose = test.loose or any(isinstance(each, ByArch) and each.loose for each in (one, other))
    return ByArch(tuple(picked), test.names, loose)


def _are_capabilities(items: list[Value]) -> bool:
    return all(item is FOG or _capability_like(item) for item in items)


def _are_reasons(items: list[Value]) -> bool:
    """Whether there is a text for some archs and nothing for others: why a thing cannot be had."""
    return None in items and all(item is FOG or item is None or isinstance(item, str) for item in items)


def _capability_like(item: Value) -> bool:
    return item is None or isinstance(item, Capability) or capability_number(item) is not None


def truth(value: Value, text: str = "") -> Condition:
    """A value used as a truth value; that there is a capability at all says nothing about which."""
    if isinstance(value, Each):
        return value.when
    if isinstance(value, ByArch) and not is_answer(value):
        return presence(value, text)
    return as_condition(value, text)
