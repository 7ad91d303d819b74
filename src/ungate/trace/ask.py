"""A question in the user's words (a flag, an attribute, a symbol, a value, an error's text), turned into chains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ungate.errors import Refusal
from ungate.model import Chain, Recipe
from ungate.trace import message
from ungate.trace.chain import Trace
from ungate.trace.conditions import guard_lines
from ungate.trace.flags import flag_of
from ungate.trace.graph import Graph, Site
from ungate.trace.jit import descend
from ungate.trace.module import Scope, Use
from ungate.trace.names import Thing
from ungate.trace.route import Influence, Route, influence, thing_of, upward
from ungate.trace.switches import tokens

__all__ = ["ask", "ask_attribute"]

_MOST_CHAINS = 3
_MOST_CANDIDATES = 8
_MOST_ASKED = 24  # references behind one attribute that are followed down


def ask(trace: Trace, text: str) -> tuple[Chain, ...]:
    """The chains that answer a question, the most telling first. Refusal where nothing in the packages answers."""
    text = text.strip()
    chains: tuple[Chain, ...] = ()
    if re.fullmatch(r"--[\w-]+(=\S+)?", text):
        flag, _, value = text.partition("=")
        chains = _of_value(trace, value) if value else _of_attribute(trace, flag, "")
    elif re.fullmatch(r"[\w.]+:[\w.]+", text):
        thing = trace.entry(text)
        chains = (_of_symbol(trace, thing, text),) if thing is not None else ()
    elif re.fullmatch(r"[\w.-]+", text):
        chains = _of_word(trace, text)
    if not chains and re.search(r"\s", text):
        chains = _of_message(trace, text)
    if not chains:
        where = ", ".join(f"{package.name} {package.version}".strip() for package in trace.corpus.packages)
        raise Refusal(
            f"'{text}' is no flag, attribute, symbol or error text of {where}.",
            "Give the message as it was printed, or a name from the code: ungate why flashinfer-allreduce-fusion",
        )
    distinct: dict[tuple[tuple[str, int], ...], Chain] = {}
    for chain in chains:
        distinct.setdefault(tuple((hop.file, hop.line) for hop in chain.hops if hop.kind != "call"), chain)
    return tuple(distinct.values())


def ask_attribute(trace: Trace, attribute: str) -> tuple[Chain, ...]:
    """The chains of a server attribute, none where it decides about nothing that is compiled."""
    return _of_attribute(trace, "", attribute)


def _of_word(trace: Trace, word: str) -> tuple[Chain, ...]:
    things = list(_definitions(trace.graph, word.rpartition(".")[2]))
    if things:
        return tuple(_of_symbol(trace, thing, word) for thing in things[:_MOST_CHAINS])
    if flag_of(trace.graph, "", word) is not None:
        return _of_attribute(trace, "", word)
    return _of_value(trace, word)


def _definitions(graph: Graph, name: str) -> Iterator[Thing]:
    """Functions and classes of that name; one at the top of a module before one inside another."""
    found: dict[Thing, int] = {}
    for word in ("def", "class"):
        for file, offset in graph.corpus.places(f"{word} {name}"):
            module = graph.names.file(file)
            scope = module.at(graph.corpus.line(file, offset)) if module else None
            if scope is not None and scope.name.rpartition(".")[2] == name:
                found.setdefault(thing_of(scope), scope.name.count("."))
    yield from sorted(found, key=lambda thing: found[thing])


def _of_symbol(trace: Trace, thing: Thing, asked: str) -> Chain:
    """Up from a symbol to the flag that decides about it, and down from there to the kernel."""
    route = upward(trace.graph, thing, trace.switches.decides)
    if route is not None and route.influence is not None and trace.graph.names.building(thing):
        for chain in _of_attribute(trace, "", route.influence.attribute):
            build = [hop for hop in chain.hops if hop.kind == "jit-module"]
            if build and build[0].symbol == thing.name:
                return replace(chain, feature=asked)
    recipe = _recipe(trace, asked, "", route.influence.attribute if route and route.influence else "")
    return trace.assemble(recipe, thing, route, ())


def _of_attribute(trace: Trace, flag: str, attribute: str) -> tuple[Chain, ...]:
    """From an attribute down: every reference that a test of it decides, and what is compiled below."""
    known = flag_of(trace.graph, flag, attribute)
    attribute = attribute or (known.attribute if known else "")
    if not attribute or known is None:
        return ()
    reached = influence(trace.graph, attribute)
    words = tokens(attribute)
    ways = sorted(_guarded(trace.graph, reached), key=lambda way: -len(words & tokens(way.sites[0].target.name)))
    recipe = _recipe(trace, flag or attribute, flag or known.name, attribute)
    chosen: dict[Thing, Route] = {}
    asked: set[Thing] = set()
    for way in ways:
        target = way.sites[0].target
        related = bool(words & tokens(target.name))
        if target in asked or len(asked) >= _MOST_ASKED or (chosen and not related):
            continue
        asked.add(target)
        if descend(trace.graph, target):
            chosen[target] = way
    if not chosen:
        return (trace.assemble(recipe, None, None, ()),)
    return tuple(trace.assemble(recipe, thing, way, reached) for thing, way in list(chosen.items())[:_MOST_CHAINS])


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
        things = [thing for thing in _definitions(graph, use.last) if "." in thing.name]
        for thing in things:
            yield thing, True if len(things) == 1 else None, "method" if len(things) == 1 else "methods"


def _of_value(trace: Trace, value: str) -> tuple[Chain, ...]:
    """A value of a flag, such as the name of a backend: what is registered under it or chosen by it."""
    graph = trace.graph
    chains: dict[Thing, Chain] = {}
    for quote in ('"', "'"):
        for file, offset in graph.corpus.places(f"{quote}{value}{quote}", whole=False):
            module = graph.names.file(file)
            if module is None or len(chains) >= _MOST_CHAINS:
                continue
            line = graph.corpus.line(file, offset)
            scope = module.at(line)
            if scope.kind in ("function", "class") and scope.first <= line < scope.body:  # a registering decorator
                thing = thing_of(scope)
                if thing not in chains:
                    recipe = _recipe(trace, value, "", _compared(trace, value))
                    chains[thing] = trace.assemble(recipe, thing, None, ())
    return tuple(chains.values())


def _compared(trace: Trace, value: str) -> str:
    """The server attribute that is compared with a value most often, empty where there is none."""
    counts: Counter[str] = Counter()
    for quote in ('"', "'"):
        for file, offset in trace.graph.corpus.places(f"{quote}{value}{quote}", whole=False):
            module = trace.graph.names.file(file)
            line = trace.graph.corpus.line(file, offset)
            scope = module.at(line) if module is not None else None
            for use in scope.uses if scope is not None else ():
                if use.test and not use.call and abs(use.line - line) <= 1 and use.last in trace.switches.attributes:
                    counts[use.last] += 1
    return counts.most_common(1)[0][0] if counts else ""


def _of_message(trace: Trace, text: str) -> tuple[Chain, ...]:
    """From an error's text: the statement that writes it, the calls that give it these values, their chains."""
    hits = message.raised(trace.graph, text)
    if not hits:
        return ()
    hit = hits[0]
    exact, every = message.calls_with(trace.graph, hit)
    sites = exact or every
    own = thing_of(hit.scope)
    if not sites:
        chain = _of_symbol(trace, own, text)
        return (_told(chain, hit, ()),)
    callers = list(dict.fromkeys(site.caller for site in sites))
    chains = [_of_symbol(trace, caller, text) for caller in callers[:_MOST_CANDIDATES]]
    chains.sort(key=lambda chain: not any(hop.kind == "flag" and hop.verified for hop in chain.hops))
    led = [chain for chain in chains if any(hop.kind == "flag" and hop.verified for hop in chain.hops)]
    told = tuple(f"{site.scope.module.file}:{site.line} {site.scope.name}" for site in sites)
    return tuple(_told(chain, hit, told) for chain in (led or chains)[:_MOST_CHAINS])


def _told(chain: Chain, hit: message.Raised, sites: tuple[str, ...]) -> Chain:
    notes = [f"The message is written at {hit.scope.module.file}:{hit.line} by {hit.scope.name}."]
    if len(sites) > 1:
        notes.append(f"It can come from {len(sites)} calls: {', '.join(sites)}.")
    return replace(chain, notes=(*notes, *chain.notes))


def _recipe(trace: Trace, name: str, flag: str, attribute: str) -> Recipe:
    packages = tuple(package.name for package in trace.corpus.packages)
    if attribute and not flag:
        known = flag_of(trace.graph, "--" + attribute.replace("_", "-"), attribute)
        flag = known.name if known else ""
    return Recipe(name, "", packages, (), flag, attribute)
