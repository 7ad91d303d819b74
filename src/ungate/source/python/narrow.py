"""Which architectures can get past a test: at least those that do, whatever the terms are that are not about them.

Where a test holds, each of its terms about the architecture may be taken at its word. Where it does not hold only
comparisons with numbers may: a flag or predicate that says no may say so for another reason.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ungate.model import KNOWN_ARCHS
from ungate.source.condition import evaluate, speaks
from ungate.source.python.scopes import is_transparent
from ungate.source.python.seeds import named_archs

if TYPE_CHECKING:
    from ungate.source.python.evaluate import Evaluator, Frame

__all__ = ["narrowed"]

_ALL = frozenset(KNOWN_ARCHS)


def narrowed(ev: Evaluator, test: ast.expr, frame: Frame, *, holds: bool) -> frozenset[int]:
    """The known archs that a branch of ``test`` can be entered on: the first for ``holds``, else the other."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return narrowed(ev, operand, frame, holds=not holds)
        case ast.NamedExpr(value=value):
            return narrowed(ev, value, frame, holds=holds)
        case ast.Call(args=[handed]) if is_transparent(test):
            return narrowed(ev, handed, frame, holds=holds)
        case ast.BoolOp(op=op, values=values):
            sets = [narrowed(ev, each, frame, holds=holds) for each in values]
            every = isinstance(op, ast.And) == holds
            return frozenset.intersection(*sets) if every else frozenset.union(*sets)
        case _:
            tree = ev.condition(test, frame)
            if not speaks(tree) or not (holds or _is_exact(test)):
                return _ALL
            return frozenset(arch for arch in KNOWN_ARCHS if evaluate(tree, arch) is not (not holds))


def _is_exact(test: ast.expr) -> bool:
    """Whether a test that says no says so because of the architecture."""
    match test:
        case ast.Compare():
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[], keywords=[]):
            return named_archs(name) is not None
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return named_archs(name) is not None
        case _:
            return False
