"""What a Python expression can come to when it is read for all known architectures at once.

Plain Python constants stand for themselves. :class:`ByArch` holds one value an arch. ``FREE`` is a value
that has nothing to do with the architecture; ``FOG`` one that has, and that the source does not tell.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ungate.model import KNOWN_ARCHS
from ungate.source.condition import All, Always, Condition, Either, Free, Known, Unknown

if TYPE_CHECKING:
    from ungate.source.python.scopes import Scope

__all__ = [
    "FOG",
    "FREE",
    "SOME",
    "ByArch",
    "ClassValue",
    "Each",
    "FunctionValue",
    "Instance",
    "MethodValue",
    "ModuleValue",
    "PartialValue",
    "Value",
    "as_condition",
    "by_arch",
    "is_answer",
    "lift",
    "same",
]

Value = Any
_HOLDS = Always(True)


class _Sentinel:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        raise TypeError(f"{self.name} has no truth value")


class _Some:
    """Something that was found in a table, of which no more is known than that it is there: no zero and not None."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SOME"

    def __gt__(self, other: object) -> bool:
        return self._against(other)

    __ge__ = __gt__

    def __lt__(self, other: object) -> bool:
        return not self._against(other)

    __le__ = __lt__

    @staticmethod
    def _against(other: object) -> bool:
        if other == 0:
            return True
        raise TypeError(f"what was found compares with 0 alone, not with {other!r}")


SOME = _Some()
FREE = _Sentinel("FREE")
FOG = _Sentinel("FOG")


@dataclass(frozen=True, slots=True)
class ByArch:
    """One value an arch, in the order of ``KNOWN_ARCHS``; an item may be ``FOG``.

    ``loose``: where an item is True, something that is not about the arch (a dtype, a setting) has its say too.
    """

    items: tuple[Value, ...]
    names: tuple[str, ...] = ()
    loose: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class FunctionValue:
    """A function, with the scope it is defined in; ``bound`` is the receiver of a method."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    name: str
    shift: int = 0
    bound: Value = FREE
    closure: Any = None


@dataclass(frozen=True, eq=False, slots=True)
class PartialValue:
    """``functools.partial`` of a function."""

    function: Value
    args: tuple[Value, ...]
    keywords: Mapping[str, Value]


@dataclass(frozen=True, eq=False, slots=True)
class ClassValue:
    """A class, with the scope of its body."""

    node: ast.ClassDef
    scope: Scope
    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Instance:
    """An object of a class of which nothing else is known."""

    of: ClassValue
    fields: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModuleValue:
    """A module, or something in a module that is not read, by its dotted name."""

    dotted: str


@dataclass(frozen=True, eq=False, slots=True)
class MethodValue:
    """A method of a plain value: ``"sm_90".startswith``, ``table.get``."""

    of: Value
    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Each:
    """A collection with one element for each arch that is built for or looked at."""

    element: Value
    when: Condition = _HOLDS


def by_arch(function: Callable[[int], Value], names: tuple[str, ...] = ()) -> ByArch:
    """One value for each known arch."""
    return ByArch(tuple(function(arch) for arch in KNOWN_ARCHS), names)


def lift(function: Callable[..., Value], *operands: Value) -> Value:
    """Apply ``function`` to constants and per-arch values alike.

    FREE among the operands makes the result FREE, unless another operand depends on the arch: then it is FOG.
    What the function cannot do with its operands (any exception) is FOG for a per-arch operand and FREE otherwise.
    """
    vectors = [operand for operand in operands if isinstance(operand, ByArch)]
    loose = any(operand is FREE or operand is FOG for operand in operands)
    if not vectors:
        if loose:
            return FOG if any(operand is FOG for operand in operands) else FREE
        try:
            return function(*operands)
        except Exception:
            return FREE
    names = tuple(dict.fromkeys(name for vector in vectors for name in vector.names))
    contingent = any(vector.loose for vector in vectors)
    if loose:
        return ByArch((FOG,) * len(KNOWN_ARCHS), names)

    def at(index: int) -> Value:
        here = [operand.items[index] if isinstance(operand, ByArch) else operand for operand in operands]
        if any(item is FOG or item is FREE for item in here):
            return FOG
        try:
            return function(*here)
        except Exception:
            return FOG

    return ByArch(tuple(at(index) for index in range(len(KNOWN_ARCHS))), names, contingent)


def as_condition(value: Value, text: str = "") -> Condition:
    """A value used as a truth value."""
    match value:
        case ByArch(items=items):
            yes, unknown = set(), set()
            for arch, item in zip(KNOWN_ARCHS, items, strict=True):
                if item is FOG or item is FREE:
                    unknown.add(arch)
                elif item:
                    yes.add(arch)
            if len(unknown) == len(KNOWN_ARCHS):
                return Unknown(text)
            known = Known(frozenset(yes), text)
            if not unknown:
                return known
            return Either((known, All((Known(frozenset(unknown), text), Unknown(text)))))
        case _ if value is FOG:
            return Unknown(text)
        case bool():
            return Always(value)
        case _:
            return Free(text)


def is_answer(value: Value) -> bool:
    """Whether a value answers yes or no for each arch: a predicate's or flag's, not a capability."""
    if not isinstance(value, ByArch):
        return False
    told = False
    for item in value.items:
        if isinstance(item, bool):
            told = True
        elif item is not None and item is not FOG:
            return False
    return told


def same(one: Value, other: Value) -> bool:
    """Whether two values are equal and of the same sort; never raises."""
    try:
        return one is other or (type(one) is type(other) and bool(one == other))
    except Exception:
        return False
