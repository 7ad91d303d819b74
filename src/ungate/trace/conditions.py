"""The quiet second gates: every other test that a function makes before it comes to a line."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ungate.trace.module import Scope, dotted
from ungate.trace.names import Names

__all__ = ["guard_lines", "guards", "tests_before", "tests_returned"]

_LONGEST = 140  # characters of a condition that are shown


def tests_before(names: Names, scope: Scope, line: int) -> tuple[tuple[int, str], ...]:
    """(line, condition that must hold) for each test between the head of a function and one of its lines:
    the branches that hold the line, asserts, early returns, and tables that are looked up by a size."""
    found: list[tuple[int, str]] = []
    body = getattr(scope.node, "body", [])
    for test, holds in _guards(body, line):
        for part in _conjuncts(test) if holds else _disjuncts(test):
            found.append((part.lineno, _text(names, scope, part, holds)))
    return tuple(dict.fromkeys(found))


def guard_lines(scope: Scope, line: int) -> tuple[tuple[int, int], ...]:
    """The line ranges of the tests that decide whether a line of the function is come to."""
    return tuple((test.lineno, test.end_lineno or test.lineno) for test, _ in guards(scope, line))


def guards(scope: Scope, line: int) -> tuple[tuple[ast.expr, bool], ...]:
    """(test, whether it must hold) for each test that decides whether a line is come to, the outermost first."""
    if scope.guards is None:
        scope.guards = {}
    if line not in scope.guards:
        scope.guards[line] = tuple(_guards(getattr(scope.node, "body", []), line))
    return scope.guards[line]


def tests_returned(names: Names, scope: Scope) -> tuple[tuple[int, str], ...]:
    """(line, conjunct) of what a predicate returns."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(scope.node):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.BoolOp | ast.Compare | ast.UnaryOp):
            found.extend((part.lineno, _text(names, scope, part, True)) for part in _conjuncts(node.value))
    return tuple(dict.fromkeys(found))


def _guards(body: list[ast.stmt], line: int) -> Iterator[tuple[ast.expr, bool]]:
    """(test, whether it must hold) for each statement of a block up to the line."""
    for statement in body:
        if statement.lineno > line:
            return
        inside = statement.lineno <= line <= (statement.end_lineno or statement.lineno)
        match statement:
            case ast.Assert(test=test) if not inside:
                yield test, True
            case ast.Assert(test=test, msg=ast.expr()) if line > (test.end_lineno or test.lineno):
                yield test, False  # the message of an assert is written where it does not hold
            case ast.If(test=test, body=then, orelse=orelse):
                in_test = test.lineno <= line <= (test.end_lineno or test.lineno)
                if inside and in_test and not _spans(then, line):
                    continue
                if inside and _spans(then, line):
                    yield test, True
                    yield from _guards(then, line)
                elif inside:
                    yield test, False
                    yield from _guards(orelse, line)
                elif then and isinstance(then[-1], ast.Return | ast.Raise | ast.Continue | ast.Break):
                    yield test, False
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case _ if inside:
                for name in ("body", "orelse", "handlers", "finalbody"):
                    inner = [node for node in getattr(statement, name, []) if isinstance(node, ast.stmt)]
                    if _spans(inner, line):
                        yield from _guards(inner, line)
            case _:
                pass


def _spans(body: list[ast.stmt], line: int) -> bool:
    return bool(body) and body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)


def _conjuncts(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _conjuncts(value)
    else:
        yield test


def _disjuncts(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        for value in test.values:
            yield from _disjuncts(value)
    else:
        yield test


def _text(names: Names, scope: Scope, test: ast.expr, holds: bool) -> str:
    if not holds and isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, True
    text = ast.unparse(test)
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1] + "…"
    text = text if holds else f"not ({text})" if isinstance(test, ast.BoolOp | ast.Compare) else f"not {text}"
    constants = [f"{name} = {value}" for name, value in _constants(names, scope, test)]
    return f"{text} ({', '.join(constants)})" if constants else text


def _constants(names: Names, scope: Scope, test: ast.expr) -> Iterator[tuple[str, str]]:
    """Names of a condition with what they stand for where the code writes that out once: a number, a list of world
    sizes, a table by size, or the look-up that a local name was given its value by."""
    for node in ast.walk(test):
        if not isinstance(node, ast.Name | ast.Attribute):
            continue
        given = _given(names, scope, node)
        if given is None:
            continue
        if isinstance(given, ast.Subscript) or (isinstance(given, ast.Call) and _looks_up(given)):
            yield dotted(node), _short(given)
            yield from _constants(names, scope, given)
        elif _literal(given):
            yield dotted(node), _short(given)


def _given(names: Names, scope: Scope, node: ast.Name | ast.Attribute) -> ast.expr | None:
    """The one expression that a name is given by, None where there is none or there are several."""
    text = dotted(node)
    holder, _, last = text.rpartition(".")
    owner = scope.owner("class") if holder in ("self", "cls") else None
    if owner is not None:
        values = owner.values.get(last, ())
    elif not holder and text in scope.values and scope.kind == "function":
        values = scope.values[text]
    else:
        thing = names.text(text, scope)
        module = names.module(thing.module) if thing is not None and thing.kind == "value" else None
        values = module.top.values.get(thing.name, ()) if module is not None and thing is not None else ()
    return values[0] if len(values) == 1 else None


def _looks_up(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("get", "max_size", "lookup") and bool(call.args)


def _literal(value: ast.expr) -> bool:
    """A number, or a display in which only numbers and texts stand."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int) and not isinstance(value.value, bool)
    shown = (ast.List, ast.Tuple, ast.Set, ast.Dict)
    plain = (*shown, ast.Constant, ast.BinOp, ast.operator, ast.expr_context, ast.UnaryOp, ast.unaryop)
    if isinstance(value, ast.Call) and dotted(value.func) in ("frozenset", "set", "tuple") and value.args:
        value = value.args[0]
    filled = any(isinstance(node, ast.Constant) for node in ast.walk(value))  # an empty one is filled elsewhere
    return isinstance(value, shown) and filled and all(isinstance(node, plain) for node in ast.walk(value))


def _short(value: ast.expr) -> str:
    text = ast.unparse(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
