"""A condition under which the admitted archs pass: topology, tensor-parallel size, message size.

    (sm90 or sm100)  ->  (sm90 or sm100 or (sm120() and batch_size <= 64))

This is how a policy is written back: all other archs behave as before, the admitted ones take the path only where it
was measured to help. A condition compares names known at the gate with numbers or each other; it calls nothing.
"""

from __future__ import annotations

import ast
import builtins
import re

from ungate.patch.edits import Place, Unopenable
from ungate.patch.edits._imports import Module

__all__ = ["host_condition", "python_condition"]

_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Compare, ast.Eq, ast.NotEq,
    ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Name, ast.Attribute, ast.Load, ast.Constant, ast.Tuple,
)  # fmt: skip
_HOST = re.compile(r"[A-Za-z_][\w:.]*(?:->\w+)*|\d+|[<>!=]=|[<>()!]|&&|\|\||\s+")


def python_condition(place: Place) -> bytes:
    """The condition as Python text in parentheses where it needs them; Unopenable for what it must not hold."""
    try:
        tree = ast.parse(place.when, mode="eval")
    except SyntaxError:
        raise Unopenable(f"the condition '{place.when}' is no Python expression") from None
    for node in ast.walk(tree):
        if not (isinstance(node, _ALLOWED) or _rows_of(node)):
            raise Unopenable(f"the condition '{place.when}' does more than compare ({type(node).__name__})")
    known = _names(place)
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    if unknown := next((name for name in names if name not in known), None):
        raise Unopenable(f"the name '{unknown}' of the condition is not known at {place.gate.file}:{place.gate.line}")
    text = ast.unparse(tree.body).encode()
    return b"(" + text + b")" if isinstance(tree.body, ast.BoolOp) and isinstance(tree.body.op, ast.Or) else text


def _rows_of(node: ast.AST) -> bool:
    """Whether the node is ``x.shape[0]``: reading the size of a tensor calls nothing."""
    match node:
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=int())):
            return True
        case _:
            return False


def _names(place: Place) -> set[str]:
    """Names of the module, and the parameters and earlier assignments of the functions around the gate."""
    module = Module.read(place.content)
    found = set(module.bound()) | set(dir(builtins))
    line = place.content.count(b"\n", 0, place.gate.span[0]) + 1
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            found |= {argument.arg for argument in every if argument}
            names = (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            found |= {name.id for name in names if name.lineno < line}
    return found


def host_condition(place: Place) -> bytes:
    """The condition as C++ text in parentheses: names, numbers and comparisons only."""
    at = 0
    while at < len(place.when):
        match = _HOST.match(place.when, at)
        if match is None:
            raise Unopenable(f"the condition '{place.when}' does more than compare")
        at = match.end()
    if place.when.count("(") != place.when.count(")") or re.search(r"\w\s*\(", place.when):
        raise Unopenable(f"the condition '{place.when}' does more than compare")
    return b"(" + place.when.encode() + b")"
