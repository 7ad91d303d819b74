"""Integer evaluation of a condition for one arch: a number, None (not known) or FREE (not about the architecture)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Protocol

from ungate.source.cuda.expression import Binary, Call, Defined, Expression, Name, Number, Unary

__all__ = ["FREE", "Free", "Meanings", "Value", "evaluate"]


class Free:
    """The value of a term that is not about the architecture."""


FREE = Free()
Value = int | None | Free


class _Unsigned(int):
    """A value of the preprocessor's unsigned type, which has 64 bits and makes any signed operand unsigned."""


_BITS = 1 << 64


class Meanings(Protocol):
    """What the names in an expression are."""

    def defined(self, name: str, arch: int) -> bool | Free | None: ...

    def value(self, name: str, arch: int) -> Value: ...

    def call(self, call: Call, arch: int) -> Value: ...


def _divide(left: int, right: int) -> int | None:
    """C's division: towards zero."""
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _modulo(left: int, right: int) -> int | None:
    quotient = _divide(left, right)
    return None if quotient is None else left - quotient * right


_OPERATORS: dict[str, Callable[[int, int], int | None]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _modulo,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": lambda left, right: left << right if 0 <= right < 64 else None,
    ">>": lambda left, right: left >> right if 0 <= right < 64 else None,
}


def _logical(decisive: bool, left: Value, right: Value) -> Value:
    """``&&`` (decisive False) or ``||``: a free operand drops out, as in the condition tree."""
    told = [bool(each) if each is not None else None for each in (left, right) if not isinstance(each, Free)]
    if not told:
        return FREE
    if decisive in told:
        return int(decisive)
    return None if None in told else int(not decisive)


_COMPARES = frozenset({"==", "!=", "<", "<=", ">", ">="})


def _apply(sign: str, first: int, second: int) -> int | None:
    operation = _OPERATORS.get(sign)
    if operation is None:
        return None
    shift = sign in {"<<", ">>"}
    unsigned = isinstance(first, _Unsigned) or (isinstance(second, _Unsigned) and not shift)
    if unsigned:
        first, second = int(first) % _BITS, int(second) if shift else int(second) % _BITS
    result = operation(first, second)
    if result is None or sign in _COMPARES:
        return None if result is None else int(result)
    return _Unsigned(result % _BITS) if unsigned else int(result)


_LEAST_MACRO = 300


def _one_scale(left: Expression, first: Value, right: Expression, second: Value) -> tuple[Value, Value]:
    """A build's own macro may hold 90 where ``__CUDA_ARCH__`` is 900: the literal beside it tells which."""
    for name, literal in ((left, right), (right, left)):
        if isinstance(name, Name) and isinstance(literal, Number) and 10 <= literal.value < _LEAST_MACRO:
            if name.name.startswith("__CUDA_ARCH") or not name.name.endswith(("_ARCH", "_ARCH_VALUE")):
                continue
            if name is left and isinstance(first, int):
                return first // 10, second
            if name is right and isinstance(second, int):
                return first, second // 10
    return first, second


def evaluate(expression: Expression, arch: int, meanings: Meanings) -> Value:
    """The value for one arch (compute capability; 0 is the host pass)."""
    match expression:
        case Number(value=value, unsigned=unsigned):
            return _Unsigned(value) if unsigned else value
        case Name(name=name):
            return meanings.value(name, arch)
        case Defined(name=name):
            told = meanings.defined(name, arch)
            return int(told) if isinstance(told, bool) else told
        case Call():
            return meanings.call(expression, arch)
        case Unary(operator=sign, of=inner):
            operand = evaluate(inner, arch, meanings)
            if not isinstance(operand, int):
                return operand
            result = {"!": int(not operand), "-": -operand, "+": operand, "~": ~operand}.get(sign)
            return _Unsigned(result % _BITS) if isinstance(operand, _Unsigned) and sign != "!" and result else result
        case Binary(operator="&&" | "||" as word, left=left, right=right):
            return _logical(word == "||", evaluate(left, arch, meanings), evaluate(right, arch, meanings))
        case Binary(operator=sign, left=left, right=right):
            first, second = evaluate(left, arch, meanings), evaluate(right, arch, meanings)
            first, second = _one_scale(left, first, right, second)
            if isinstance(first, Free) and isinstance(second, Free | int):
                return FREE
            if isinstance(second, Free) and isinstance(first, int):
                return FREE
            if not isinstance(first, int) or not isinstance(second, int):
                return None
            return _apply(sign, first, second)
        case _:
            return FREE
