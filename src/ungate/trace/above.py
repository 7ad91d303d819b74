"""From the server's flag down to the library's entry, as hops."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ungate.model import Gate, Hop, Reached, Recipe
from ungate.trace.conditions import guard_lines, tests_before, tests_returned
from ungate.trace.flags import Flag, Setting, flag_of, settings
from ungate.trace.gates import Gates, marked
from ungate.trace.graph import Graph
from ungate.trace.module import Scope
from ungate.trace.names import Thing
from ungate.trace.route import Route

__all__ = ["asked_hops", "call_hop", "flag_hops", "flagless_hop", "not_gates", "route_hops"]

_NOT_DECIDING = frozenset({"mechanism", "source", "define", "choice"})
_MOST_SETTINGS = 8
_HOW = {
    "method": "called as a method; no other class of these packages has one of that name",
    "methods": "called as a method, and several classes have one of that name",
    "each": "called as a method; every class that has one of that name leads on",
    "operator": "called as a registered operator",
    "registry": "taken out of a table by name",
    "reference": "handed on by reference",
    "instance": "a method of an object made on the way; who calls it is decided while running",
}


def flag_hops(graph: Graph, gates: Gates, recipe: Recipe, near: str = "", value: str = "") -> tuple[Hop, ...]:
    """The flag and every statement that gives its attribute a value by default. ``near`` is a file on the way, to
    tell servers of one package apart. With ``value``, only the statements that give it this value."""
    if not recipe.flag and not recipe.attribute:
        return ()
    flag = flag_of(graph, recipe.flag, recipe.attribute, near)
    attribute = recipe.attribute or (flag.attribute if flag else "")
    defaults = list(_default_hops(graph, gates, attribute, recipe.flag, flag.file if flag else "", value))
    hop = _flag_hop(recipe, flag)
    return (replace(hop, symbol=f"{hop.symbol} {value}") if value else hop, *defaults[:_MOST_SETTINGS])


def flagless_hop(entry: str, route: Route | None) -> Hop:
    """In place of a flag where none was found that leads to an entry."""
    note = f"no server flag that leads to {entry} was found"
    if route is not None and route.influence is None:
        note += "; what follows is the nearest call of it from another package, perhaps one of several"
    return Hop("flag", "", 0, entry, None, note=note)


def _flag_hop(recipe: Recipe, flag: Flag | None) -> Hop:
    if flag is None:
        name = recipe.flag or recipe.attribute
        return Hop("flag", "", 0, name, None, note=f"no declaration of {name} was found in these packages")
    if flag.name and flag.name != flag.attribute:
        return Hop("flag", flag.file, flag.line, flag.name, True, note=f"stored as {flag.attribute}")
    return Hop("flag", flag.file, flag.line, flag.symbol, True, note="a field of the configuration")


def _default_hops(graph: Graph, gates: Gates, attribute: str, flag: str, near: str, value: str = "") -> Iterator[Hop]:
    for setting in settings(graph, attribute, near):
        if value and not re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", setting.turns):
            continue
        found = gates.within(setting.scope.module.file, setting.ranges)
        tests = not_gates(tests_before(graph.names, setting.scope, setting.line), found, setting.ranges)
        role = "default" if setting.turns != "off" and setting.unset else ""
        yield Hop(
            "default",
            setting.scope.module.file,
            setting.ranges[-1][0] if setting.ranges else setting.line,
            setting.scope.name,
            True,
            marked(found, Reached.YES, role),
            _default_note(setting, flag or attribute),
            _told(setting.scope, tests),
        )


def _default_note(setting: Setting, flag: str) -> str:
    if setting.unset and setting.turns != "off":
        does = "turns it on" if setting.turns == "on" else f"sets it to {setting.turns}"
        return f"{does} by default where this holds; {flag} given explicitly bypasses this condition"
    if setting.turns == "on":
        return "turns it on"
    if setting.turns == "off":
        return f"turns it off where this holds, also when {flag} was given"
    return f"sets it to {setting.turns}"


def route_hops(graph: Graph, gates: Gates, route: Route) -> tuple[Hop, ...]:
    """One hop a function from the attribute's reader to the function that calls the entry."""
    hops: list[Hop] = []
    head = route.influence
    if head is not None and head.through is not None:
        scope, first = head.reader, (*head.handed, head.through)[0]
        found = gates.between(scope.module.file, scope.first, scope.last)
        tests = not_gates(tests_returned(graph.names, scope), found)
        tests = tuple((line, text) for line, text in tests if line != head.line)
        hops.append(
            Hop(
                "call",
                scope.module.file,
                head.line,
                scope.name,
                True,
                (*_flags_read(graph, gates, scope, found), *marked(found, Reached.YES)),
                f"reads the attribute; asked by {first.scope.name} in line {first.line}",
                _told(scope, tests),
            )
        )
        hops.extend(
            replace(call_hop(graph, gates, site.scope, site.line, True), note="hands the answer on")
            for site in head.handed
        )
    if head is not None and head.mark:
        if not hops:
            hops.append(call_hop(graph, gates, head.reader, head.line, True))
        hops.extend(call_hop(graph, gates, site.scope, site.line, site.verified, site.how) for site in head.between)
        hops[-1] = replace(hops[-1], note=f"sets {head.mark}, which {route.sites[0].scope.name} asks for")
    for site in route.sites:
        asked = asked_hops(graph, gates, site.scope, site.line)
        shown = {(hop.file, hop.symbol) for hop in hops}
        hops.extend(hop for hop in asked if (hop.file, hop.symbol) not in shown)
        hops.append(call_hop(graph, gates, site.scope, site.line, site.verified, site.how))
    return tuple(hops)


def call_hop(graph: Graph, gates: Gates, scope: Scope, line: int, verified: bool | None, how: str = "call") -> Hop:
    """One function on the way: it refers to the next one in ``line``; its gates are those that decide whether
    that line is come to."""
    file = scope.module.file
    ranges = [(scope.first, scope.body), *guard_lines(scope, line), (line, line)]
    found = gates.within(file, ranges)
    tests = not_gates(tests_before(graph.names, scope, line), found)
    kind = "import" if how == "import" else "call"
    note = _HOW.get(how, "")
    if verified is None:
        note = f"not verified: {note or 'the name could not be resolved'}"
    own = (*_flags_read(graph, gates, scope, found, ranges), *marked(found, Reached.YES))
    return Hop(kind, file, line, scope.name or "<module>", verified, own, note, _told(scope, tests))


def _flags_read(
    graph: Graph,
    gates: Gates,
    scope: Scope,
    own: tuple[Gate, ...],
    ranges: list[tuple[int, int]] | None = None,
) -> tuple[Gate, ...]:
    """Module-level flags that a function's conditions read: where their answers are computed. A flag that is read
    by a gate of the function itself is left out, because that gate decides here and the flag serves others too."""
    found: list[Gate] = []
    named = {name for gate in own for name in gate.names}
    for use in scope.uses:
        if (
            "." in use.text
            or use.text in named
            or not (ranges is None or any(first <= use.line <= last for first, last in ranges))
        ):
            continue
        values = scope.module.top.values.get(use.text, ())
        lines = [(value.lineno, value.end_lineno or value.lineno) for value in values]
        if lines and use.text not in scope.values:
            found.extend(gates.within(scope.module.file, lines))
    return marked(dict.fromkeys(found), Reached.YES, "define")


def asked_hops(graph: Graph, gates: Gates, scope: Scope, line: int) -> tuple[Hop, ...]:
    """The functions that the conditions before a line call, where such a function holds gates of its own (the
    named predicates themselves, which many features share, are left to the gates that use them)."""
    ranges = [(scope.first, scope.body), *guard_lines(scope, line)]
    hops: dict[str, Hop] = {}
    for use in scope.uses:
        if not (use.test and use.call and any(first <= use.line <= last for first, last in ranges)):
            continue
        thing = graph.names.use(use, scope)
        asked = graph.scope(Thing("function", thing.module, thing.name)) if thing is not None else None
        if asked is None or asked is scope or asked.kind != "function" or asked.name in hops:
            continue
        inside = gates.between(asked.module.file, asked.first, asked.last)
        deciding = tuple(gate for gate in inside if gate.role not in _NOT_DECIDING)
        if deciding:
            note = f"asked by {scope.name} in line {use.line}"
            marks = marked(deciding, Reached.YES)
            hops[asked.name] = Hop("call", asked.module.file, asked.body, asked.name, True, marks, note)
    return tuple(hops.values())


def not_gates(
    tests: tuple[tuple[int, str], ...], gates: tuple[Gate, ...], ranges: Sequence[tuple[int, int]] | None = None
) -> tuple[tuple[int, str], ...]:
    """The tests that are no architecture gates themselves; with ``ranges``, only those in these lines."""
    lines = {line for gate in gates for line in range(gate.line, gate.end_line + 1)}
    return tuple(
        (line, text)
        for line, text in tests
        if (ranges is None or any(first <= line <= last for first, last in ranges))
        and not (line in lines and any(name in text for gate in gates for name in gate.names))
    )


def _told(scope: Scope, tests: tuple[tuple[int, str], ...]) -> tuple[str, ...]:
    return tuple(f"{scope.module.file}:{line} {text}" for line, text in tests)
