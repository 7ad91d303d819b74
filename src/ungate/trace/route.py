"""The way from a server attribute down to an entry of the library: a search upwards over callers."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ungate.trace.flags import readers
from ungate.trace.graph import Graph, Site
from ungate.trace.module import Scope
from ungate.trace.names import Thing

__all__ = [
    "Influence",
    "Reaches",
    "Route",
    "alone",
    "entered",
    "hands_on",
    "influence",
    "kept_from",
    "thing_of",
    "upward",
    "ways",
]

_MOST = 150  # functions looked at; a chain that needs more is reported as unresolved
_FURTHER = 25  # functions looked at after a first answer that is not the one looked for
_DEEPEST = 9  # steps of a way
_HANDED = 4  # calls over which an answer is followed upwards
_SHORT = 60  # lines; a longer function does more than hand on an answer
_EVERYWHERE = frozenset({"forward", "__call__", "__init__", "main", "run", "apply", "call", "get", "create"})


@dataclass(frozen=True, slots=True)
class Influence:
    """A function whose course the attribute decides. ``reader`` reads the attribute at ``line``; ``through``
    is the call of the reader in the influenced function, None where the function reads it itself."""

    reader: Scope
    line: int
    through: Site | None = None
    attribute: str = ""
    mark: str = ""  # where the answer is carried on an object: ``file:line object.name``
    between: tuple[Site, ...] = ()  # the calls from the reader to the function that sets the mark
    handed: tuple[Site, ...] = ()  # the calls over which the reader's answer is handed on to the call ``through``


@dataclass(frozen=True, slots=True)
class Route:
    """``sites`` run from the top: each is a function and the line where it refers to the next; the last
    site's target is the entry. ``influence`` says how the attribute decides the first one."""

    sites: tuple[Site, ...]
    influence: Influence | None


Reaches = Callable[[Site, tuple[Site, ...]], tuple[Influence, bool] | None]


def influence(graph: Graph, attribute: str) -> dict[Thing, Influence]:
    """The functions that read the attribute and the functions that call those, nearest first. A function that returns
    what it was told counts as one that reads it."""
    found: dict[Thing, Influence] = {}
    for scope, line in readers(graph, attribute):
        found.setdefault(thing_of(scope), Influence(scope, line, attribute=attribute))
    level = list(found.items())
    for _ in range(_HANDED):
        further: list[tuple[Thing, Influence]] = []
        for thing, decided in level:
            if thing.name.rpartition(".")[2] in _EVERYWHERE:
                continue
            for site in graph.callers(thing):
                if not site.verified or site.scope.kind != "function" or site.caller in found:
                    continue
                handed = (*decided.handed, decided.through) if decided.through is not None else ()
                new = Influence(decided.reader, decided.line, site, attribute, handed=handed)
                found[site.caller] = new
                if hands_on(site):
                    further.append((site.caller, new))
        level = further
    return found


def hands_on(site: Site) -> bool:
    """Whether a short function returns what the call of a site answers, itself or in a name it is kept under."""
    scope = site.scope
    if not site.use.call or scope.last - scope.first > _SHORT:
        return False
    kept = kept_from(site)
    returned = [node.value for node in scope.nodes(ast.Return) if node.value is not None]
    for value in returned:
        for node in ast.walk(value):
            if node is site.use.node or (isinstance(node, ast.Name) and node.id in kept):
                return True
    return False


def kept_from(site: Site) -> frozenset[str]:
    """The local names that a function keeps the answer of a call under."""
    names: set[str] = set()
    for node in site.scope.nodes(ast.Assign):
        if any(child is site.use.node for child in ast.walk(node.value)):
            names.update(
                child.id for target in node.targets for child in ast.walk(target) if isinstance(child, ast.Name)
            )
    return frozenset(names)


def upward(graph: Graph, entry: Thing, reached: Reaches, *, sure_only: bool = False) -> Route | None:
    """The shortest way from an influenced function down to the entry, None where none was found.

    ``reached`` is asked of each reference, with the references below it, and answers how the reference is decided
    and whether that is what was looked for; an answer that is not is kept for want of a better one, unless
    ``sure_only``.
    """
    fallback: Route | None = None
    since = 0
    for route, sure in _walk(graph, entry, reached):
        if route is None:
            since += fallback is not None
        elif sure:
            return route
        else:
            fallback = fallback or route
        if since > _FURTHER:
            break
    return None if sure_only else fallback


def entered(graph: Graph, entry: Thing) -> Route | None:
    """The shortest verified way down to the entry from a function of another package, None where there is none."""
    owner = graph.corpus.owner
    own = owner[graph.corpus.modules[entry.module]].name

    def crosses(site: Site, way: tuple[Site, ...]) -> tuple[Influence, bool] | None:
        outside = site.scope.kind == "function" and owner[site.scope.module.file].name != own
        return (Influence(site.scope, site.line), True) if outside else None

    found = upward(graph, entry, crosses)
    return replace(found, influence=None) if found is not None else None


def ways(graph: Graph, entry: Thing, reached: Reaches, most: int = 8) -> tuple[Route, ...]:
    """The ways from different influenced functions down to the entry, the shortest first."""
    found: dict[tuple[Thing, str], Route] = {}
    for route, _ in _walk(graph, entry, reached):
        if route is not None and route.influence is not None:
            found.setdefault((route.sites[0].caller, route.influence.mark), route)
        if len(found) >= most:
            break
    return tuple(found.values())


def alone(graph: Graph, entry: Thing, most: int = 4) -> Route | None:
    """The way up as long as exactly one function refers to each; None where several do, or none. No attribute
    is known to decide about it."""
    sites: list[Site] = []
    thing = entry
    while len(sites) < most:
        sure = [site for site in graph.callers(thing) if site.scope.name and site.verified]
        tables = [site for site in sure if site.how == "registry"]  # the table is what the name was put into
        callers = {site.caller: site for site in tables or sure}
        if not callers or (len(callers) > 1 and not tables) or any(site.caller == thing for site in sites):
            break
        site = next(iter(callers.values()))
        sites.insert(0, site)
        thing = site.caller
        if len(callers) > 1:  # several take things out of the table: each does so in its own right
            break
    return Route(tuple(sites), None) if sites else None


def _walk(graph: Graph, entry: Thing, reached: Reaches) -> Iterator[tuple[Route | None, bool]]:
    """Every influenced reference on the ways up, nearest first, and (None, False) after each function looked at.

    References that only agree by name are followed after all verified ones, except a method's: where every
    definition of that name was found to lead to the entry, it does not matter which of them is called.
    """
    pending: deque[tuple[Thing, tuple[Site, ...]]] = deque([(entry, ())])
    later: deque[tuple[Thing, tuple[Site, ...]]] = deque()
    seen = {entry}
    by_name: dict[str, int] = {}
    held: list[tuple[Site, tuple[Site, ...]]] = []
    for _ in range(_MOST):
        if not pending and not later:
            return
        thing, below = (pending or later).popleft()
        bare = thing.name.rpartition(".")[2]
        by_name[bare] = by_name.get(bare, 0) + 1
        ready: list[tuple[Site, tuple[Site, ...]]] = []
        for site in _references(graph, thing, bare, bool(below)):
            (ready if site.verified or site.how != "method" else held).append((site, below))
        if by_name[bare] >= graph.definitions(bare):
            same = [(site, way) for site, way in held if site.use.last == bare]
            ready += [(replace(site, verified=True, how="each"), way) for site, way in same]
            held = [pair for pair in held if pair[0].use.last != bare]
        for site, way in ready:
            found = reached(site, way) if site.verified else None
            if found is not None:
                yield Route((site, *way), found[0]), found[1]
            if site.caller in seen or len(way) >= _DEEPEST or (found is not None and found[1]):
                continue
            seen.add(site.caller)
            (pending if site.verified else later).append((site.caller, (site, *way)))
        if not pending and not later and held:
            later.extend((site.caller, (site, *way)) for site, way in held if site.caller not in seen)
            seen.update(site.caller for site, _ in held)
            held = []
        yield None, False


def _references(graph: Graph, thing: Thing, bare: str, below: bool) -> list[Site]:
    """The references to a thing; a method that is called on objects everywhere counts as its class."""
    if not (bare in _EVERYWHERE and below):
        return [site for site in graph.callers(thing) if site.scope.name]
    made = _class_of(graph, thing) or thing
    sites = [site for site in graph.callers(made) if site.scope.name]
    return [replace(site, verified=None, how="instance") if site.verified else site for site in sites]


def _class_of(graph: Graph, thing: Thing) -> Thing | None:
    """The class of a method that is called through its instances everywhere (forward, __call__)."""
    scope = graph.scope(thing)
    if scope is not None and scope.parent is not None and scope.parent.kind == "class":
        return Thing("class", thing.module, scope.parent.name)
    return None


def thing_of(scope: Scope) -> Thing:
    """The function or class that a scope defines."""
    return Thing("class" if scope.kind == "class" else "function", scope.module.name, scope.name)
