"""``match`` statements read as the ``if`` chains that they are short for.

A ``case`` over the capability, a major number or the name of an architecture asks the same question as a comparison, so
each pattern is turned into the comparison of the subject that it stands for. What a pattern says beside values (a type,
the keys of a mapping) is no question about the architecture, and such a case is neither taken nor left for certain.
"""

from __future__ import annotations

import ast
from typing import TypeVar

__all__ = ["Case", "branches", "cases"]

_Node = TypeVar("_Node", bound=ast.expr)
Case = tuple[ast.expr, ast.match_case]
"""The test that a case makes, and the case."""


def cases(node: ast.Match) -> list[Case]:
    """Each case with the expression that is true where it is taken; ``True`` for one that takes whatever comes.

    Positions are those of the patterns. That the cases before it were not taken is no part of a test.
    """
    return [(_test(node.subject, each), each) for each in node.cases]


def branches(node: ast.Match) -> list[ast.stmt]:
    """The statement as nested ``if`` statements, with the names that its patterns bind assigned first."""
    rest: list[ast.stmt] = []
    for test, each in reversed(cases(node)):
        body = [*_captures(node.subject, each.pattern), *each.body]
        if isinstance(test, ast.Constant) and test.value is True:
            rest = body
            continue
        if test is not each.guard:
            _place(test, node.subject, each.pattern)  # the text that the test is about holds the subject
        rest = [ast.copy_location(ast.If(test, body, rest), each.pattern)]
    return rest


def _test(subject: ast.expr, of: ast.match_case) -> ast.expr:
    test = _asked(subject, of.pattern)
    if of.guard is None:
        return test
    if isinstance(test, ast.Constant) and test.value is True:
        return of.guard
    return _place(ast.BoolOp(ast.And(), [test, of.guard]), of.pattern, of.guard)


def _asked(subject: ast.expr, pattern: ast.pattern) -> ast.expr:
    """What a pattern asks of the subject."""
    match pattern:
        case ast.MatchValue(value=value):
            return _compare(subject, ast.Eq(), value, pattern)
        case ast.MatchSingleton(value=value):
            return _compare(subject, ast.Is(), ast.copy_location(ast.Constant(value), pattern), pattern)
        case ast.MatchAs(pattern=None):
            return ast.copy_location(ast.Constant(True), pattern)
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return _asked(subject, inner)
        case ast.MatchOr(patterns=patterns):
            return _join(ast.Or(), [_asked(subject, each) for each in patterns], pattern)
        case ast.MatchSequence(patterns=patterns) if not any(isinstance(each, ast.MatchStar) for each in patterns):
            if values := _values(patterns):
                return _compare(subject, ast.Eq(), ast.copy_location(values, pattern), pattern)
            parts = [_asked(_part(subject, index), each) for index, each in enumerate(patterns)]
            return _join(ast.And(), parts, pattern)
        case _:
            return ast.copy_location(ast.Constant(...), pattern)  # not about values: it tells nothing


def _values(patterns: list[ast.pattern]) -> ast.Tuple | None:
    """A sequence of plain values, as a tuple to compare with."""
    found = [each.value for each in patterns if isinstance(each, ast.MatchValue)]
    return ast.Tuple(found, ast.Load()) if found and len(found) == len(patterns) else None


def _part(subject: ast.expr, index: int) -> ast.expr:
    if isinstance(subject, ast.Tuple) and index < len(subject.elts):
        return subject.elts[index]
    return ast.copy_location(
        ast.Subscript(subject, ast.copy_location(ast.Constant(index), subject), ast.Load()), subject
    )


def _join(op: ast.boolop, parts: list[ast.expr], pattern: ast.pattern) -> ast.expr:
    """The parts joined, without those that hold in any case."""
    always = [each for each in parts if isinstance(each, ast.Constant) and each.value is True]
    if isinstance(op, ast.Or) and always:
        return always[0]
    asked = [each for each in parts if each not in always]
    if not asked:
        return always[0]
    return asked[0] if len(asked) == 1 else _place(ast.BoolOp(op, asked), pattern, pattern)


def _compare(subject: ast.expr, op: ast.cmpop, value: ast.expr, pattern: ast.pattern) -> ast.Compare:
    return _place(ast.Compare(subject, [op], [value]), pattern, pattern)


def _place(node: _Node, first: ast.pattern | ast.expr, last: ast.pattern | ast.expr) -> _Node:
    node.lineno, node.col_offset = first.lineno, first.col_offset
    node.end_lineno, node.end_col_offset = last.end_lineno, last.end_col_offset
    return node


def _captures(subject: ast.expr, pattern: ast.pattern) -> list[ast.stmt]:
    """The names that a pattern gives the subject or its parts, as assignments."""
    match pattern:
        case ast.MatchAs(pattern=inner, name=str() as name):
            target = ast.copy_location(ast.Name(name, ast.Store()), pattern)
            made = ast.copy_location(ast.Assign([target], subject), pattern)
            return [made, *(_captures(subject, inner) if inner is not None else ())]
        case ast.MatchSequence(patterns=patterns) if not any(isinstance(each, ast.MatchStar) for each in patterns):
            return [made for index, each in enumerate(patterns) for made in _captures(_part(subject, index), each)]
        case _:
            return []
