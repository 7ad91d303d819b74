"""The way from a server attribute down to an entry of the library: a search upwards over callers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ungate.trace.flags import readers
from ungate.trace.graph import Graph, Site
from ungate.trace.module import Scope
from ungate.trace.names import Thing

__all__ = ["Influence", "Route", "influence", "upward"]

_MOST = 400  # functions looked at; a chain that needs more is reported as unresolved
_EVERYWHERE = frozenset({"forward", "__call__", "__init__", "main", "run", "apply", "call"})


@dataclass(frozen=True, slots=True)
class Influence:
    """A function whose course the attribute decides. ``reader`` reads the attribute at ``line``; ``through``
    is the call of the reader in the influenced function, None where the function reads it itself."""

    reader: Scope
    line: int
    through: Site | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """``sites`` run from the top: each is a function and the line where it refers to the next; the last
    site's target is the entry. ``influence`` says how the attribute decides the first one."""

    sites: tuple[Site, ...]
    influence: Influence | None


def influence(graph: Graph, attribute: str) -> dict[Thing, Influence]:
    """The functions that read the attribute and the functions that call those, nearest first."""
    found: dict[Thing, Influence] = {}
    for scope, line in readers(graph, attribute):
        found.setdefault(_thing(scope), Influence(scope, line))
    for reader in list(found.values()):
        if reader.reader.name.rpartition(".")[2] in _EVERYWHERE:
            continue
        for site in graph.callers(_thing(reader.reader)):
            if site.verified and site.scope.kind == "function":
                found.setdefault(site.caller, Influence(reader.reader, reader.line, site))
    return found


def upward(graph: Graph, entry: Thing, reached: Callable[[Thing], Influence | None]) -> Route | None:
    """The shortest way from an influenced function down to the entry, None where none was found.

    References that only agree by name are followed after all verified ones.
    """
    start = reached(entry)
    if start is not None:
        return Route((), start)
    pending: deque[tuple[Thing, tuple[Site, ...]]] = deque([(entry, ())])
    later: deque[tuple[Thing, tuple[Site, ...]]] = deque()
    seen = {entry}
    looked = 0
    while (pending or later) and looked < _MOST:
        thing, below = (pending or later).popleft()
        looked += 1
        if thing.name.rpartition(".")[2] in _EVERYWHERE and below:
            thing = _class_of(graph, thing) or thing
        for site in graph.callers(thing):
            caller = site.caller
            if not site.scope.name or caller in seen:
                continue
            sites = (site, *below)
            found = reached(caller)
            if found is not None and site.verified:
                return Route(sites, found)
            seen.add(caller)
            (pending if site.verified else later).append((caller, sites))
    return None


def _class_of(graph: Graph, thing: Thing) -> Thing | None:
    """The class of a method that is called through its instances everywhere (forward, __call__)."""
    scope = graph.scope(thing)
    if scope is not None and scope.parent is not None and scope.parent.kind == "class":
        return Thing("class", thing.module, scope.parent.name)
    return None


def _thing(scope: Scope) -> Thing:
    return Thing("class" if scope.kind == "class" else "function", scope.module.name, scope.name)
