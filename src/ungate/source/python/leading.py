"""Which names of a scope can lead to the architecture, going by the text of what they are bound to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ungate.source.python.scopes import Binding
from ungate.source.python.tokens import words

if TYPE_CHECKING:
    from ungate.source.python.module import PythonModule

__all__ = ["leading", "spoken"]


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
    fresh = chosen
    while fresh:
        fresh = {name for name, texts in held.items() if name not in chosen and not fresh.isdisjoint(texts)}
        chosen |= fresh
    return frozenset(chosen)
