"""The syntax nodes of a piece that stand around given places in its text."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from ungate.source.python.module import Unit
from ungate.source.python.scopes import Scope

__all__ = ["around"]

_SCOPES = frozenset((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
_BARE = frozenset(
    [int, str, type(None), bool]
    + [
        kind
        for base in (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
        for kind in base.__subclasses__()
    ]
)
"""What stands in the fields of a syntax node beside nodes of interest; the value of a constant is not looked at."""


def around(
    unit: Unit, scope: Scope, lines: Sequence[int], kinds: frozenset[type[ast.AST]]
) -> Iterator[tuple[ast.AST, Scope]]:
    """The nodes of these types that hold one of the lines (of the file, in order), parents first, with their scope."""
    shift = unit.shift
    stack: list[tuple[ast.AST, Scope]] = [(node, scope) for node in reversed(unit.body)]
    while stack:
        node, inside = stack.pop()
        kind = node.__class__
        fields = node.__dict__
        first = fields.get("lineno")
        if first is not None:
            if kind in _SCOPES and fields["decorator_list"]:
                first = fields["decorator_list"][0].lineno
            index = bisect_left(lines, first + shift)
            if index == len(lines) or lines[index] > fields["end_lineno"] + shift:
                continue
        if kind in kinds:
            yield node, inside
        if kind is ast.Constant or kind is ast.Name:
            continue
        if kind in _SCOPES:
            inside = inside.inner(node, shift)
        children: list[tuple[ast.AST, Scope]] = []
        for value in fields.values():
            its = value.__class__
            if its is list:
                children.extend((each, inside) for each in value if each.__class__ not in _BARE)
            elif its not in _BARE:
                children.append((value, inside))
        children.reverse()
        stack.extend(children)
