"""Functions and classes that are kept in a table and taken out of it by name: who takes them out.

``@register("name")`` whose function stores what it is given in a module-level dictionary, and a module-level dictionary
that is written out (``{"name": function}``). Whoever reads the dictionary refers to all that it holds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ungate.trace.corpus import Corpus, aside
from ungate.trace.module import Scope, Use, dotted
from ungate.trace.names import Names, Thing

__all__ = ["Registries"]


class Registries:
    """Tables of functions, found from what they hold."""

    def __init__(self, corpus: Corpus, names: Names) -> None:
        self.corpus = corpus
        self.names = names
        self._readers: dict[Thing, tuple[tuple[Scope, Use], ...]] = {}

    def readers(self, thing: Thing) -> Iterator[tuple[Scope, Use]]:
        """(function, reference) for each place that takes something out of a table that holds the thing."""
        for table in self._tables(thing):
            if table not in self._readers:
                self._readers[table] = tuple(self._reads(table))
            yield from self._readers[table]

    def _tables(self, thing: Thing) -> Iterator[Thing]:
        scope = self.names.scope(thing)
        if scope is None or scope.parent is None or not isinstance(scope.node, ast.FunctionDef | ast.ClassDef):
            return
        for decorator in scope.node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            found = self.names.text(dotted(called), scope.parent)
            asked = self.names.scope(found) if found is not None and found.kind == "function" else None
            for inside in asked.within() if asked is not None else ():
                for use in inside.uses:
                    if use.text.endswith("[]") and "." not in use.text:
                        yield from self._table(use.text.removesuffix("[]"), inside)
        top = scope.module.top
        bare = scope.name.rpartition(".")[2]
        for name, values in top.values.items():
            if any(isinstance(value, ast.Dict) and _holds(value, bare) for value in values):
                yield Thing("value", scope.module.name, name)

    def _table(self, name: str, scope: Scope) -> Iterator[Thing]:
        found = self.names.text(name, scope)
        if found is not None and found.kind == "value":
            yield found

    def _reads(self, table: Thing) -> Iterator[tuple[Scope, Use]]:
        bare = table.name.rpartition(".")[2]
        for file in self.corpus.holding(bare):
            module = self.names.file(file) if not aside(file) else None
            for inside in module.among(self.corpus.lines(bare, file)) if module is not None else ():
                for use in inside.uses:
                    base, _, rest = use.text.partition("[]")
                    base = base.removesuffix(".get").removesuffix(".items").removesuffix(".values")
                    taken = rest == "" and (use.text.endswith("[]") or use.last in ("get", "items", "values"))
                    if not taken or base.rpartition(".")[2] != bare or use.stored or _stores(inside, use):
                        continue
                    if inside.kind == "function" and self.names.text(base, inside) == table:
                        yield inside, use


def _holds(table: ast.Dict, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for value in table.values for node in ast.walk(value))


def _stores(scope: Scope, use: Use) -> bool:
    """Whether the reference is the left side of an assignment: something is put into the table there."""
    return any(target is use.node for node in scope.nodes(ast.Assign) for target in node.targets)
