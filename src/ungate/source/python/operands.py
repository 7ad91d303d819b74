"""The operands of a test that speak of the architecture, and how the test is joined from them."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ungate.source.condition import speaks
from ungate.source.python.scopes import is_transparent, last
from ungate.source.python.values import ByArch

if TYPE_CHECKING:
    from ungate.source.python.evaluate import Evaluator, Frame

__all__ = ["apart", "bracketed", "names", "operands", "reason", "speaking", "to_fallback"]


def speaking(ev: Evaluator, node: ast.expr, frame: Frame) -> tuple[list[ast.expr], bool, ast.expr]:
    """The operands that speak, whether an odd number of negations stands over them, and what joins them."""
    negated = False
    while True:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                negated = not negated
                node = operand
            case ast.NamedExpr(value=value):
                node = value
            case ast.Call(args=[handed]) if is_transparent(node):
                node = handed
            case ast.BoolOp(values=values):
                found = [i for i, each in enumerate(values) if speaks(ev.condition(each, frame))]
                if len(found) == 1:
                    node = values[found[0]]
                    continue
                if not found:
                    # a name that is bound again under itself can speak in the whole and in no part of it
                    return [node], negated, node
                return values[found[0] : found[-1] + 1], negated, node
            case _:
                return [node], negated, node


def apart(ev: Evaluator, parts: list[ast.expr], frame: Frame) -> bool:
    """Whether alternatives on lines of their own, each under other conditions, are gates of their own.

    In ``(fp8 and is_sm90()) or (fp4 and is_sm100())`` neither test speaks for the other's case.
    """
    if len(parts) < 2 or any(
        (one.end_lineno or one.lineno) >= other.lineno for one, other in itertools.pairwise(parts)
    ):
        return False
    if not any(
        isinstance(part, ast.BoolOp) and any(not speaks(ev.condition(each, frame)) for each in part.values)
        for part in parts
    ):
        return False
    return all(speaks(ev.condition(part, frame)) for part in parts)


def bracketed(data: bytes, span: tuple[int, int], parts: list[ast.expr]) -> tuple[int, int]:
    """The span with the brackets that belong to its first and last operand when there are several."""
    if len(parts) == 1:
        return span
    start, end = span
    text = data[start:end]
    missing = text.count(b")") - text.count(b"(")
    while missing > 0:
        before = data.rfind(b"(", 0, start)
        if before < 0 or data[before + 1 : start].strip():
            break
        start, missing = before, missing - 1
    while missing < 0:
        after = data.find(b")", end)
        if after < 0 or data[end:after].strip():
            break
        end, missing = after + 1, missing + 1
    return start, end


_REASON = re.compile(r"reason|(?:^|_)(?:err|error|why|problem|unavailable|unsupported)(?:_|$)", re.I)


def reason(node: ast.expr) -> bool | None:
    """Whether an expression is true where there is a reason why not, told by its name; None for all others."""
    match node:
        case ast.Compare(left=of, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
            return isinstance(op, ast.IsNot) if _REASON.search(last(of)) else None
        case ast.Name() | ast.Attribute() | ast.Call():
            return True if _REASON.search(last(node)) else None
        case _:
            return None


def operands(node: ast.expr) -> Iterator[ast.expr]:
    """What is joined by ``and``, ``or`` and ``not``."""
    match node:
        case ast.BoolOp(values=values):
            for value in values:
                yield from operands(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from operands(operand)
        case ast.NamedExpr(value=value):
            yield from operands(value)
        case ast.Call(args=[handed]) if is_transparent(node):
            yield from operands(handed)
        case _:
            yield node


def names(ev: Evaluator, found: list[ast.expr], frame: Frame) -> tuple[str, ...]:
    """The predicates and flags that these operands read."""
    spoken: dict[str, None] = {}
    for operand in found:
        value = ev.value(operand, frame)
        if isinstance(value, ByArch):
            spoken.update(dict.fromkeys(value.names))
        for each in ast.walk(operand):
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name | ast.Attribute):
                name = each.func.id if isinstance(each.func, ast.Name) else each.func.attr
                if isinstance(ev.value(each, frame), ByArch):
                    spoken[name] = None
    return tuple(spoken)


_NEGATIVE = (ast.NotEq, ast.NotIn, ast.Lt, ast.LtE)


def to_fallback(node: ast.expr, parts: list[ast.expr], negated: bool) -> bool:
    """Whether a test without an exception reads as the way to a fallback: ``if not x``, ``if major != 9``."""
    if len(parts) != 1:
        return negated
    match parts[0]:
        case ast.Compare(ops=[op], comparators=[other]):
            absent = isinstance(op, ast.Is) and isinstance(other, ast.Constant) and other.value is None
            return (absent or isinstance(op, _NEGATIVE)) != negated
        case _:
            return negated
