"""Which names of a scope can lead to the architecture, going by the text of what they are bound to."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ungate.source.python.parameters import is_number
from ungate.source.python.scopes import Binding
from ungate.source.python.tokens import telling, words

if TYPE_CHECKING:
    from ungate.source.python.module import PythonModule

__all__ = ["is_given", "leading", "spoken"]

_ASKS = re.compile(
    rb"^_*(?:is|has|can|may|should|must|uses?|checks?|match|supports?|needs?|requires?|allows?|enables?)(?:_|$)"
    rb"|supported|available"
)


def spoken(module: PythonModule, bindings: Iterable[Binding]) -> set[bytes]:
    """The words of what a name is bound to, and of the tests that it is bound under."""
    found: set[bytes] = set()
    for each in bindings:
        for node in (each.node, *(guard.test for guard in each.guards)):
            if isinstance(node, ast.expr) and hasattr(node, "lineno"):
                start, end = module.span(node, node, each.shift)
                found.update(words(module.data[start:end]))
    return found


def leading(
    module: PythonModule, bindings: Mapping[str, Sequence[Binding]], tells: Callable[[set[bytes]], bool]
) -> frozenset[bytes]:
    """The names whose bindings hold a word that ``tells``, directly or through each other (``self.x`` as ``x``)."""
    held: dict[bytes, set[bytes]] = {}
    for name, bound in bindings.items():
        held.setdefault(name.removeprefix("self.").encode(), set()).update(spoken(module, bound))
    chosen = {name for name, texts in held.items() if tells(texts)}
    chosen |= {
        name.encode()
        for name, bound in bindings.items()
        if bound[0].kind == "param" and is_number(bound[0].scope, name)
    }
    fresh = chosen
    while fresh:
        fresh = {name for name, texts in held.items() if name not in chosen and not fresh.isdisjoint(texts)}
        chosen |= fresh
    return frozenset(chosen)


def is_given(module: PythonModule, body: Sequence[ast.stmt], name: bytes, longest: int) -> bool:
    """Whether a module calls a function of ``body`` that may answer by its arguments: ``is_new = lambda: _check(9)``.

    One of more than ``longest`` lines is no predicate, nor is one whose name asks nothing; what a name tells by its
    spelling is followed in any case.
    """
    if _ASKS.search(name) is None or telling(name.decode()) or module.data.count(name + b"(") < 2:
        return False
    node = next(each for each in body if getattr(each, "name", "").encode() == name)
    return (
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(each.arg not in ("self", "cls") for each in node.args.args)
        and (node.end_lineno or 0) - node.lineno <= longest
    )
