"""For which archs a predicate's definition is true, read from its body; None where that is not certain."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

from ungate.model import KNOWN_ARCHS

__all__ = ["archs_of"]

_SILENT = re.compile(r"(?i)version|is_cuda\b|is_available|hip|rocm")
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def archs_of(definition: ast.stmt) -> frozenset[int] | None:
    """The known archs for which the function or the assigned ``partial(…, majors=[…])`` is true."""
    match definition:
        case ast.FunctionDef():
            returns = [node.value for node in ast.walk(definition) if isinstance(node, ast.Return) and node.value]
            guards = [r for r in returns if not (isinstance(r, ast.Constant) and r.value is False)]
            return _true_for(guards[0]) if len(guards) == 1 else None
        case ast.Assign(value=value):
            return _majors(value)
        case _:
            return None


def _majors(value: ast.expr) -> frozenset[int] | None:
    for node in ast.walk(value):
        if isinstance(node, ast.keyword) and node.arg and "major" in node.arg:
            try:
                majors = ast.literal_eval(node.value)
            except ValueError:
                return None
            if isinstance(majors, list | tuple | set):
                return frozenset(arch for arch in KNOWN_ARCHS if arch // 10 in majors)
    return None


def _true_for(expression: ast.expr) -> frozenset[int] | None:
    found = {arch: _value(expression, arch) for arch in KNOWN_ARCHS}
    if None in found.values():
        return None
    return frozenset(arch for arch, value in found.items() if value)


def _value(node: ast.expr, arch: int) -> bool | None:
    match node:
        case ast.BoolOp(op=op, values=values):
            parts = [_value(v, arch) for v in values]
            decisive = isinstance(op, ast.Or)
            if decisive in parts:
                return decisive
            return None if None in parts else not decisive
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _value(operand, arch)
            return None if inner is None else not inner
        case ast.Compare(left=left, ops=ops, comparators=rights):
            terms = [_term(t, arch) for t in (left, *rights)]
            if _SILENT.search(ast.unparse(node)):
                return True
            result = True
            for i, relation in enumerate(ops):
                a, b = terms[i], terms[i + 1]
                if a is None or b is None:
                    return None
                if isinstance(relation, ast.In | ast.NotIn):
                    if not isinstance(b, tuple):
                        return None
                    result &= (a in b) == isinstance(relation, ast.In)
                elif compare := _COMPARE.get(type(relation)):
                    if type(a) is not type(b):
                        return None
                    result &= compare(a, b)
                else:
                    return None
            return result
        case _:
            return True if _SILENT.search(ast.unparse(node)) else None


def _term(node: ast.expr, arch: int) -> int | tuple[int, ...] | None:
    """A constant, or a variable that is named after what it holds."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, list | tuple | set) and all(isinstance(v, int) for v in value):
        return tuple(value)
    text = ast.unparse(node)
    if re.fullmatch(r"(?:.*\.)?(?:\w*_)?major|.*get_device_capability\(.*\)\[0\]|\w*(?:cap|capability)\[0\]", text):
        return arch // 10
    if re.fullmatch(r"(?:.*\.)?(?:\w*_)?minor|.*get_device_capability\(.*\)\[1\]|\w*(?:cap|capability)\[1\]", text):
        return arch % 10
    if re.fullmatch(r"\w*get_device_sm\(\)|sm|sm_version", text):
        return arch
    return None
