"""What the branches of a test do: turn away, leave, or go on alike with other numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

__all__ = ["leaves", "picks", "raises", "refuses", "tunes"]


def raises(body: Sequence[ast.stmt]) -> bool:
    """Whether a branch raises."""
    return any(isinstance(node, ast.Raise) for node in body)


def refuses(body: Sequence[ast.stmt]) -> bool:
    """Whether a branch turns away: it raises, returns False, or collects a complaint (``errors.append(…)``)."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.Continue) and len(body) > 1:
        last = body[-2]
    if isinstance(last, ast.Raise):
        return True
    if isinstance(last, ast.Return):
        value = last.value
        if isinstance(value, ast.Tuple) and value.elts:
            value = value.elts[0]
        return isinstance(value, ast.Constant) and value.value is False
    match last:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "add" | "extend"))):
            return _AGAINST.search(name) is not None
        case _:
            return False


_AGAINST = re.compile(
    r"unsupported|incompatible|invalid|reject|refus|err(?:or)?s?(?:_|$)|problem|violation|issue|missing|fail|bad"
    r"|skipp|unmet|mismatch"
)
"""What a list of complaints is called; one of reasons may as well explain what was chosen."""


def leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether nothing after the statement is reached from a branch."""
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def tunes(node: ast.If, after: Sequence[ast.stmt]) -> bool:
    """Whether all branches do the same with other numbers: block sizes, stages, warps. ``after`` follows the ``if``.

    Such a test turns nothing away. A branch that is missing goes on with what follows where the others return.
    """
    ways = [_settings(body) for body in _ways(node, after)]
    first = ways[0]
    return first is not None and len(ways) > 1 and bool(first) and all(_alike(first, way) for way in ways[1:])


def picks(node: ast.IfExp) -> bool:
    """Whether a conditional expression is a choice between numbers, or between calls of one thing."""
    values = [*_values(node)]
    return all(_same(values[0], each) for each in values[1:])


def _ways(node: ast.If, after: Sequence[ast.stmt]) -> Iterator[Sequence[ast.stmt]]:
    yield node.body
    match node.orelse:
        case [ast.If() as inner]:
            yield from _ways(inner, after)
        case []:
            yield after[:1] if node.body and isinstance(node.body[-1], ast.Return) else ()
        case other:
            yield other


_Settings = dict[str, ast.expr]


def _settings(body: Sequence[ast.stmt]) -> _Settings | None:
    """What a branch sets, by target; the value that it returns or the call that it makes under a name of their own."""
    found: _Settings = {}
    for node in body:
        match node:
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                names, values = [target], [value]
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    names, values = target.elts, value.elts
                found.update((ast.unparse(name), each) for name, each in zip(names, values, strict=False))
            case ast.Return(value=ast.expr() as value):
                found["return"] = value
            case ast.Expr(value=ast.Call() as value):
                found[f"call {len(found)}"] = value
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                return None
    return found


def _alike(one: _Settings, other: _Settings | None) -> bool:
    return other is not None and one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)


def _values(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield from _values(node.body)
        yield from _values(node.orelse)
    else:
        yield node


def _same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two values are of one kind and differ in numbers at most."""
    ways = [*_values(one), *_values(other)]
    if all(_is_number(each) for each in ways):
        return True
    match ways:
        case [ast.Call() as first, *rest]:
            return all(isinstance(each, ast.Call) and _called(each) == _called(first) for each in rest)
        case [ast.Tuple(elts=first) | ast.List(elts=first), *rest]:
            return bool(first) and all(
                isinstance(each, ast.Tuple | ast.List)
                and len(each.elts) == len(first)
                and all(_same(a, b) for a, b in zip(first, each.elts, strict=True))
                for each in rest
            )
        case [ast.Dict(keys=first), *rest]:
            names = {ast.unparse(key) for key in first if key is not None}
            return bool(names) and all(
                isinstance(each, ast.Dict) and {ast.unparse(key) for key in each.keys if key is not None} == names
                for each in rest
            )
        case _:
            return ast.dump(one) == ast.dump(other)


def _called(node: ast.Call) -> tuple[str, list[str], list[str]]:
    """What is called, and with what beside numbers."""
    plain = ["" if _is_number(each) else ast.unparse(each) for each in node.args]
    words = [f"{each.arg}=" + ("" if _is_number(each.value) else ast.unparse(each.value)) for each in node.keywords]
    return ast.unparse(node.func), plain, sorted(words)


def _is_number(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=int() | float() as value):
            return not isinstance(value, bool)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case _:
            return False
