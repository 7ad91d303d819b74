"""Answers that are carried on an object: a predicate decides, a name is set on a tensor, and another function asks
for that name later."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ungate.trace.conditions import guard_lines
from ungate.trace.flags import readers
from ungate.trace.graph import Graph, Site
from ungate.trace.module import Scope, Use, dotted
from ungate.trace.names import Thing
from ungate.trace.route import Influence, thing_of

__all__ = ["marked_influence"]


def marked_influence(graph: Graph, direct: Mapping[Thing, Influence]) -> dict[Thing, Influence]:
    """The functions that ask for a name which a caller of an influenced predicate sets on an object."""
    found: dict[Thing, Influence] = {}
    for thing, decided in direct.items():
        scope = graph.scope(thing)
        if scope is None or not _answers(scope):
            continue
        for site in graph.callers(thing):
            for use in _set_under(site) if site.verified else ():
                mark = f"{site.scope.module.file}:{use.line} {use.text}"
                between = (*((decided.through,) if decided.through is not None else ()), site)
                for reader, line in readers(graph, use.last):
                    told = Influence(decided.reader, decided.line, None, decided.attribute, mark, between)
                    if thing_of(reader) not in direct and line:
                        found.setdefault(thing_of(reader), told)
    return found


def _answers(scope: Scope) -> bool:
    """Whether a function returns something: only then can a caller act on it."""
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(scope.node))


def _set_under(site: Site) -> Iterator[Use]:
    """Names set on objects other than self, behind a test of the call's answer."""
    kept = {name for name, values in site.scope.values.items() if any(_calls(value, site.use.last) for value in values)}
    for use in site.scope.uses:
        if not use.stored or use.text.startswith("self.") or "." not in use.text:
            continue
        ranges = guard_lines(site.scope, use.line)
        tests = [u for u in site.scope.uses if any(first <= u.line <= last for first, last in ranges)]
        if any(test.text in kept or (test.call and test.last == site.use.last) for test in tests):
            yield use


def _calls(value: ast.expr, name: str) -> bool:
    nodes = (node for node in ast.walk(value) if isinstance(node, ast.Call))
    return any(dotted(node.func).rpartition(".")[2] == name for node in nodes)
