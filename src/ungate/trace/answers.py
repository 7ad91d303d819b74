"""Answers to a name: the chains of a symbol of the code, of a server's attribute, of a value that is given to one."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ungate.model import Chain, Hop, Recipe
from ungate.trace.chain import Trace
from ungate.trace.conditions import guard_lines
from ungate.trace.flags import flag_of
from ungate.trace.graph import Graph, Site
from ungate.trace.jit import search
from ungate.trace.module import Scope, Use
from ungate.trace.names import Thing
from ungate.trace.required import answers
from ungate.trace.route import Influence, Reaches, Route, alone, entered, influence, kept_from, thing_of, upward
from ungate.trace.switches import tokens
from ungate.trace.values import Asked, asked_for, members, places_of, registered, under

__all__ = ["MOST_CHAINS", "definitions", "of_attribute", "of_symbol", "of_value", "recipe_of"]

MOST_CHAINS = 3
_OTHER_DEVICES = frozenset(
    {"rocm", "hip", "aiter", "npu", "ascend", "xpu", "musa", "hpu", "mlu", "tpu", "amd", "intel"}
)
_MOST_CANDIDATES = 8
_SAID_BY_ALL = frozenset({"kernel", "impl"})  # words of a flag that tell no feature apart
_MOST_ASKED = 24  # references behind one attribute that are followed down


def definitions(graph: Graph, name: str) -> Iterator[Thing]:
    """Functions and classes of that name; one at the top of a module before one inside another."""
    found: dict[Thing, int] = {}
    for word in ("def", "class"):
        for file, offset in graph.corpus.places(f"{word} {name}"):
            module = graph.names.file(file)
            scope = module.at(graph.corpus.line(file, offset)) if module else None
            if scope is not None and scope.name.rpartition(".")[2] == name:
                found.setdefault(thing_of(scope), scope.name.count("."))
    if not found:
        for file, offset in graph.corpus.places(f"{name} = "):  # a module-level name for a function of elsewhere
            module = graph.names.file(file)
            if module is not None and module.at(graph.corpus.line(file, offset)) is module.top:
                thing = graph.names.text(name, module.top)
                if thing is not None and thing.kind in ("function", "class") and not thing.trail:
                    found.setdefault(thing, 0)
    yield from sorted(found, key=lambda thing: found[thing])


def of_symbol(trace: Trace, thing: Thing, asked: str) -> Chain:
    """Up from a symbol to the flag that decides about it, and down from there to the kernel."""
    route = upward(trace.graph, thing, trace.switches.own, sure_only=True) or entered(trace.graph, thing)
    if route is not None and route.influence is not None and trace.graph.names.building(thing):
        for chain in of_attribute(trace, "", route.influence.attribute):
            build = [hop for hop in chain.hops if hop.kind == "jit-module"]
            if build and build[0].symbol == thing.name:
                return replace(chain, feature=asked)
    recipe = recipe_of(trace, asked, "", route.influence.attribute if route and route.influence else "")
    return trace.assemble(recipe, thing, route, ())


def of_attribute(trace: Trace, flag: str, attribute: str) -> tuple[Chain, ...]:
    """From an attribute down: every reference that a test of it decides, and what is compiled below."""
    known = flag_of(trace.graph, flag, attribute or flag.lstrip("-").replace("-", "_"))
    attribute = attribute or (known.attribute if known else "")
    if not attribute or known is None:
        return ()
    reached = influence(trace.graph, attribute)
    words = tokens(attribute)
    ways = sorted(_guarded(trace.graph, reached), key=lambda way: -len(words & tokens(way.sites[0].target.name)))
    recipe = recipe_of(trace, flag or attribute, flag or known.name, attribute)
    chosen: dict[Thing, Route] = {}
    asked: set[Thing] = set()
    for way in ways:
        target = way.sites[0].target
        related = bool(words & tokens(target.name))
        if target in asked or len(asked) >= _MOST_ASKED or (chosen and not related) or _elsewhere(target):
            continue
        asked.add(target)
        below = search(trace.graph, target)
        if below.builds or below.ahead:
            chosen[target] = way
    if not chosen:
        return (trace.assemble(recipe, None, None, ()),)
    return tuple(trace.assemble(recipe, thing, way, reached) for thing, way in list(chosen.items())[:MOST_CHAINS])


def _guarded(graph: Graph, reached: dict[Thing, Influence]) -> Iterator[Route]:
    """Each reference in an influenced function that stands behind the test of the attribute."""
    for thing, decided in reached.items():
        scope = graph.scope(thing)
        if scope is None:
            continue
        own = [use.line for use in scope.uses if use.last == decided.attribute and not use.stored]
        lines = [decided.through.line] if decided.through is not None else own
        for use in scope.uses:
            ranges = () if use.stored else guard_lines(scope, use.line)
            line = next((line for line in lines for first, last in ranges if first <= line <= last), 0)
            if not line:
                continue
            here = decided if decided.through is not None else replace(decided, line=line)
            for target, verified, how in _targets(graph, use, scope):
                yield Route((Site(scope, use.line, target, verified, how, use),), here)


def _targets(graph: Graph, use: Use, scope: Scope) -> Iterator[tuple[Thing, bool | None, str]]:
    found = graph.meaning(use, scope)
    if found is not None and found.kind in ("function", "class", "result") and not found.trail:
        kind = "class" if found.kind == "class" else "function"
        yield Thing(kind, found.module, found.name), True, "call" if use.call else "reference"
    elif found is None and use.call and "." in use.text and 0 < graph.definitions(use.last) <= _MOST_CANDIDATES:
        things = [thing for thing in definitions(graph, use.last) if "." in thing.name]
        for thing in things:
            yield thing, True if len(things) == 1 else None, "method" if len(things) == 1 else "methods"


def of_value(trace: Trace, value: str, flag: str = "") -> tuple[Chain, ...]:
    """A value of a flag, such as the name of a backend: what is registered under it or chosen by it. ``flag`` keeps
    apart the flags that have a value of that name."""
    graph = trace.graph
    words = tokens(flag) - _SAID_BY_ALL
    attribute = flag.lstrip("-").replace("-", "_") or _compared(trace, value)
    recipe = recipe_of(trace, value, flag, attribute)
    chains: dict[Thing, Chain] = {}
    kept = list(registered(graph, value))
    most = max((len(words & tokens(around)) for _, around in kept), default=0)
    conditions = list(asked_for(graph, value, words))
    asked = max((len(words & tokens(condition.name)) for condition in conditions), default=0)
    named = {thing: (scope, line) for thing, scope, line in members(graph, value)}
    for thing, around in kept if most >= asked and (most or not words) else ():
        if thing not in chains and len(chains) < MOST_CHAINS and len(words & tokens(around)) == most:
            if thing in named:
                chains[thing] = _by_member(trace, recipe, thing, value, *named[thing])
                continue
            route = (upward(graph, thing, _reads(trace, attribute)) if attribute else None) or alone(graph, thing)
            chains[thing] = trace.assemble(recipe, thing, route, (), value=value)
    if chains:
        return tuple(chains.values())
    closest = [condition for condition in conditions if len(words & tokens(condition.name)) == asked]
    chosen = _chosen(trace, closest, attribute, tokens(value) | words)
    for thing, way in list(chosen.items())[:MOST_CHAINS]:
        chains[thing] = trace.assemble(recipe, thing, way, (), value=value)
    return tuple(chains.values())


def _by_member(trace: Trace, recipe: Recipe, thing: Thing, value: str, enumeration: Scope, line: int) -> Chain:
    """The chain of a class that the member of an enumeration names by its path: who takes it out imports that path,
    and asks the class itself first."""
    chain = trace.assemble(recipe, thing, None, (), value=value)
    flags = [hop for hop in chain.hops if hop.kind in ("flag", "default")]
    named = Hop(
        "import", enumeration.module.file, line, f"{enumeration.name}.{value}", True, note="names the class by its path"
    )
    down = [hop for hop in chain.hops if hop.kind not in ("flag", "default") and hop.file]
    own = [hop for hop in answers(trace, thing, value) if all(hop.line != other.line for other in down)]
    return replace(chain, hops=(*flags, named, *own, *down))


def _reads(trace: Trace, attribute: str) -> Reaches:
    """Asks whether a function on the way up reads the attribute, or hands on what does."""
    readers = influence(trace.graph, attribute)

    def reached(site: Site, way: tuple[Site, ...]) -> tuple[Influence, bool] | None:
        found = readers.get(site.caller)
        if found is not None and (found.through is None or found.through.use.test or _passes(found.through, site)):
            return found, True
        decided = trace.switches.decides(site, way)
        return decided if decided is not None and decided[0].attribute == attribute else None

    return reached


def _passes(asked: Site, site: Site) -> bool:
    """Whether a function hands what it was told by one call to another as an argument."""
    kept = kept_from(asked)
    for call in (node for node in ast.walk(site.scope.node) if isinstance(node, ast.Call)):
        if call.func is site.use.node:
            given = (node for each in ast.iter_child_nodes(call) for node in ast.walk(each))
            return any(node is asked.use.node or (isinstance(node, ast.Name) and node.id in kept) for node in given)
    return False


def _chosen(trace: Trace, conditions: list[Asked], attribute: str, words: frozenset[str]) -> dict[Thing, Route]:
    """The references that stand under one of the conditions and lead to something compiled, those first that share
    most words with the value."""
    ways: dict[Thing, Route] = {}
    for asked in conditions:
        scope, inside = asked.scope, under(asked)
        for use in scope.uses:
            if use.stored or not inside(use.line):
                continue
            reader = asked.through or scope
            through = None
            if asked.through is not None:
                through = Site(scope, asked.line, thing_of(asked.through), True, "call", use)
            decided = Influence(reader, asked.through.body if asked.through else asked.line, through, attribute)
            for target, verified, how in _targets(trace.graph, use, scope):
                if _elsewhere(target):
                    continue
                ways.setdefault(target, Route((Site(scope, use.line, target, verified, how, use),), decided))
    found: dict[Thing, Route] = {}
    ranked = sorted(ways.items(), key=lambda pair: -len(words & tokens(f"{pair[0].module}.{pair[0].name}")))
    for target, way in ranked[:_MOST_ASKED]:
        below = search(trace.graph, target)
        if below.builds or below.ahead:
            found[target] = way
        if len(found) >= MOST_CHAINS:
            break
    return found


def _elsewhere(thing: Thing) -> bool:
    """Whether a name says that it serves another maker's device."""
    return bool(tokens(f"{thing.module}.{thing.name}") & _OTHER_DEVICES)


def _compared(trace: Trace, value: str) -> str:
    """The server attribute that is compared with a value most often, empty where there is none."""
    counts: Counter[str] = Counter()
    for scope, line in places_of(trace.graph, value):
        for use in scope.uses:
            if use.test and abs(use.line - line) <= 1 and trace.switches.flag(use, scope):
                counts[use.last] += 1
    return counts.most_common(1)[0][0] if counts else ""


def recipe_of(trace: Trace, name: str, flag: str, attribute: str) -> Recipe:
    """A recipe of these packages made up from a question: only its flag and its attribute matter."""
    packages = tuple(package.name for package in trace.corpus.packages)
    if attribute and not flag:
        known = flag_of(trace.graph, "--" + attribute.replace("_", "-"), attribute)
        flag = known.name if known else ""
    return Recipe(name, "", packages, (), flag, attribute)
