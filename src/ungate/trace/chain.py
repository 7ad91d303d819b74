"""One feature, traced: the hops from the server's flag to the kernel, each found in the code or marked unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ungate.errors import Refusal
from ungate.model import Chain, Gate, Hop, Reached, Recipe, ScanResult, Status, Target
from ungate.trace import above
from ungate.trace.ahead import Binaries
from ungate.trace.below import Called, below
from ungate.trace.corpus import Corpus
from ungate.trace.gates import Gates, marked
from ungate.trace.graph import Graph, Site
from ungate.trace.jit import Build, Descent, Step, build_of, builds, descend, prebuilt, search
from ungate.trace.marks import marked_influence
from ungate.trace.names import Thing
from ungate.trace.pause import uncollected
from ungate.trace.reach import Translations
from ungate.trace.route import Influence, Reaches, Route, influence, upward, ways
from ungate.trace.switches import Switches, tokens
from ungate.trace.unused import mentioned

if TYPE_CHECKING:
    from ungate.host.packages import Package

__all__ = ["Trace", "chain"]

_MOST_BUILDS = 6  # ways below one entry that are shown; more are counted in a note


class Trace:
    """The packages under trace, read once and asked several times."""

    def __init__(self, packages: Sequence[Package], scan_result: ScanResult | None, target: Target) -> None:
        self.corpus = Corpus(packages)
        self.graph = Graph(self.corpus, builds)
        self.translations = Translations(self.corpus)
        self.binaries = Binaries(self.corpus)
        self.gates = Gates(scan_result.gates if scan_result is not None else ())
        self.target = target
        self.switches = Switches(self.graph)

    @property
    def asked(self) -> frozenset[str]:
        """The files whose gates decide what was asked so far."""
        return frozenset(self.gates.asked)

    def attach(self, scan_result: ScanResult) -> None:
        """From here on the gates are those of ``scan_result``; what was read of the code is kept."""
        self.gates = Gates(scan_result.gates)

    def entry(self, symbol: str) -> Thing | None:
        """The function that ``package.module:name`` names, followed through re-exports."""
        module, _, name = symbol.partition(":")
        thing: Thing | None = Thing("module", module)
        for part in name.split("."):
            thing = self.graph.names.attribute(thing, part) if thing else None
        return thing if thing is not None and self.graph.scope(thing) is not None else None

    @uncollected()
    def chain(self, recipe: Recipe) -> Chain:
        """The chain of a recipe. Refusal where none of its entries is in the packages."""
        entries = [(symbol, self.entry(symbol)) for symbol in recipe.entries]
        known = [thing for _, thing in entries if thing is not None]
        if not known:
            _refuse(recipe, self.corpus)
        reached = influence(self.graph, recipe.attribute) if recipe.attribute else {}
        routes = ((thing, upward(self.graph, thing, _decided(reached))) for thing in known)
        entry, route = next(((thing, way) for thing, way in routes if way is not None), (known[0], None))
        missing = tuple(f"{symbol} is not in these packages." for symbol, thing in entries if thing is None)
        return self.assemble(recipe, entry, route, reached, missing)

    @uncollected()
    def ways(self, recipe: Recipe) -> tuple[Chain, ...]:
        """One chain for each way from the attribute to the first entry that the packages hold, also where the
        attribute's answer is carried on an object. Slower than :meth:`chain`, and complete up to eight ways."""
        entry = next((thing for symbol in recipe.entries if (thing := self.entry(symbol)) is not None), None)
        if entry is None or not recipe.attribute:
            return ()
        direct = influence(self.graph, recipe.attribute)
        carried = marked_influence(self.graph, direct)

        def reached(site: Site, way: tuple[Site, ...]) -> tuple[Influence, bool] | None:
            found = direct.get(site.caller) or carried.get(site.caller)
            return (found, True) if found is not None else None

        return tuple(self.assemble(recipe, entry, way, direct) for way in ways(self.graph, entry, reached))

    def assemble(
        self,
        recipe: Recipe,
        entry: Thing | None,
        route: Route | None,
        reached: Mapping[Thing, Influence] | Sequence[Thing],
        notes: tuple[str, ...] = (),
        value: str = "",
    ) -> Chain:
        """The hops of a route, what decides about it above and what is compiled below its entry. ``value`` is the
        one that the recipe's flag is given, where that was asked for."""
        top = route.sites[0].scope.module.file if route is not None and route.sites else ""
        near = top or (self.corpus.modules.get(entry.module, "") if entry is not None else "")
        hops = list(above.flag_hops(self.graph, self.gates, recipe, near, value))
        if entry is None:
            hops.append(Hop("call", "", 0, "", None, note="nothing that is compiled was found behind it"))
            return Chain(recipe.name, self.target, tuple(hops), (), (*notes, *self._unread()))
        if not (recipe.attribute or recipe.flag) and (route is None or route.influence is None):
            hops.append(above.flagless_hop(str(entry), route))
        if route is not None and route.influence is None and (recipe.attribute or recipe.flag):
            what, first = recipe.attribute or recipe.flag, route.sites[0].caller
            hops.append(Hop("call", "", 0, str(first), None, note=f"how {what} comes to {first} was not followed"))
        if route is not None:
            hops.extend(above.route_hops(self.graph, self.gates, route))
        elif recipe.attribute or recipe.flag:
            what = recipe.attribute or recipe.flag
            hops.append(Hop("call", "", 0, str(entry), None, note=f"no call path from {what} to {entry} was found"))
        down, apart, more = self.down(entry, route, _beside(route, reached))
        known = {(hop.file, hop.line) for hop in hops}
        hops.extend(hop for hop in down if (hop.file, hop.line) not in known)
        return Chain(recipe.name, self.target, _deciding(hops), apart, (*notes, *more, *self._unread()))

    def down(
        self, entry: Thing, route: Route | None, beside: Sequence[Thing] = ()
    ) -> tuple[tuple[Hop, ...], tuple[Hop, ...], tuple[str, ...]]:
        """(hops on the path, hops apart, notes) from an entry to the kernels.

        ``beside`` are further functions that the same attribute decides: what they call of the module runs too.
        """
        top = _library_entry(self.corpus, entry, route) if self.graph.names.building(entry) else entry
        found = search(self.graph, top)
        own = (entry.module, entry.name)
        if top != entry and all((each.build.module.name, each.build.name) != own for each in found.builds):
            found = search(self.graph, entry)  # what the route's outermost function builds is something else
        descents = _ranked(found.builds, top.name.rpartition(".")[2], entry)
        if self.graph.names.building(entry):  # what else is built below the library's function was not asked for
            descents = [each for each in descents if (each.build.module.name, each.build.name) == own] or descents
        if not descents:
            return self._bottom(entry, found.ahead), (), ()
        callers = (*(site.caller for site in (route.sites if route else ())), *beside)
        also = [found for caller in dict.fromkeys(callers) for found in descend(self.graph, caller)]
        hops: list[Hop] = []
        apart: list[Hop] = []
        shown: set[tuple[str, str]] = set()
        for descent in descents:
            key = (descent.build.module.name, descent.build.name)
            if key in shown or len(shown) >= _MOST_BUILDS:
                continue
            shown.add(key)
            for step in descent.steps:
                asked = above.asked_hops(self.graph, self.gates, step.scope, step.use.line)
                hops.extend(hop for hop in asked if hop not in hops)
                how = "call" if step.verified else "instance"
                hop = above.call_hop(self.graph, self.gates, step.scope, step.use.line, step.verified, how)
                if not any((hop.file, hop.line) == (other.file, other.line) for other in hops):
                    hops.append(hop)
            build = build_of(self.graph.names, descent.build)
            called = self._called(build, [*descents, *also])
            path, aside = below(self.translations, build, descent.export, called, self.gates)
            hops.append(self._build_hop(build, path))
            files = {hop.file for hop in (*hops, *apart)}
            hops.extend(hop for hop in path if hop.file not in files)
            apart.extend(hop for hop in aside if hop.file not in files)
        more = len({(d.build.module.name, d.build.name) for d in descents}) - len(shown)
        notes = (f"{more} further modules can be built below {entry}; they are not shown.",) if more else ()
        if found.ahead:
            calls = ", ".join(dict.fromkeys(way[-1].use.text for way in found.ahead[:_MOST_BUILDS]))
            notes = (*notes, f"Below {entry} there are also calls of what is compiled ahead of time: {calls}.")
        return tuple(hops), tuple(apart), notes

    def _build_hop(self, build: Build, path: Sequence[Hop]) -> Hop:
        scope = build.scope
        found = self.gates.between(scope.module.file, scope.first, scope.last)
        note = f"builds the module {build.name}" if build.name else "builds a module whose name is computed"
        ready, blocker = prebuilt(self.corpus, scope), ""
        if ready:
            decided = [
                gate
                for gate in (*found, *(gate for hop in path for gate in hop.gates))
                if gate.reached is not Reached.NO
            ]
            if any(gate.status(self.target) is Status.CLOSED for gate in decided):
                blocker = f"its kernels come as downloaded binaries ({ready}); an edit adds no architecture to them"
            note += (
                ""
                if blocker
                else f"; kernels come as downloaded binaries ({ready}), for which architectures is not known"
            )
        return Hop(
            "jit-module",
            scope.module.file,
            scope.body,
            scope.name,
            True,
            marked(found, Reached.YES),
            note,
            blocker=blocker,
        )

    def _bottom(self, entry: Thing, ahead: Sequence[Sequence[Step]]) -> tuple[Hop, ...]:
        """Where nothing below an entry is compiled from source: what it calls ahead of time, or that it is lost."""
        scope = self.graph.scope(entry)
        if scope is None:
            return (Hop("source", "", 0, str(entry), None, note="its definition is not in these packages"),)
        if not ahead:
            hop = above.call_hop(self.graph, self.gates, scope, scope.body, True)
            inside = marked(self.gates.between(scope.module.file, scope.first, scope.last), Reached.YES)
            hop = replace(hop, gates=tuple(dict.fromkeys((*hop.gates, *inside))))
            return (hop, Hop("source", "", 0, "", None, note="no module that is compiled or loaded below it was found"))
        hops: list[Hop] = []
        nearest = min(len(way) for way in ahead)
        for way in [way for way in ahead if len(way) <= nearest + 1][:_MOST_BUILDS]:
            for step in way:
                how = "call" if step.verified else "instance"
                hop = above.call_hop(self.graph, self.gates, step.scope, step.use.line, step.verified, how)
                hops.extend(
                    [hop] if not any((hop.file, hop.line) == (other.file, other.line) for other in hops) else []
                )
            meant = self.graph.names.use(way[-1].use, way[-1].scope)
            known = str(meant) if meant is not None and meant.kind == "outside" and meant.module != "torch" else ""
            hops.extend(self.binaries.hops(way[-1], self.target, known))
        return tuple(hops)

    def _called(self, build: Build, descents: Sequence[Descent]) -> Called:
        key = (build.scope.module.name, build.scope.name)
        path = [d.export for d in descents if d.export and (d.build.module.name, d.build.name) == key]
        library = self.corpus.owner[build.scope.module.file]
        engines = [package.name for package in self.corpus.packages if package is not library]
        module = self.translations.translation([source.file for source in build.sources if source.verified])
        others = [name for name in module.exports if name not in path]
        return Called(path, [name for name in others if mentioned(self.graph, build.scope, name, engines)])

    def _unread(self) -> tuple[str, ...]:
        return tuple(f"{unread.file}: {unread.reason}." for unread in self.corpus.unread)


def chain(recipe: Recipe, packages: Sequence[Package], scan_result: ScanResult, target: Target) -> Chain:
    """Trace a recipe over packages, with the gates of ``scan_result`` attached to the hops they decide."""
    return Trace(packages, scan_result, target).chain(recipe)


def _decided(reached: Mapping[Thing, Influence]) -> Reaches:
    """Asks whether the attribute decides a function."""

    def ask(site: Site, way: tuple[Site, ...]) -> tuple[Influence, bool] | None:
        found = reached.get(site.caller)
        return (found, True) if found is not None else None

    return ask


def _beside(route: Route | None, reached: Mapping[Thing, Influence] | Sequence[Thing]) -> tuple[Thing, ...]:
    """The functions of the route's first module that the attribute decides, apart from the route itself."""
    if route is None or not route.sites:
        return ()
    module = route.sites[0].scope.module.name
    return tuple(thing for thing in reached if thing.module == module)


def _deciding(hops: Sequence[Hop]) -> tuple[Hop, ...]:
    """The hops without gates that only ask a function which is a hop with gates itself: it decides there, and the
    other conditions it makes (a batch size, a flag) must not be gone round."""
    asked = {hop.symbol.rpartition(".")[2] for hop in hops if hop.kind == "call" and hop.gates}
    return tuple(
        replace(hop, gates=tuple(gate for gate in hop.gates if not _only_asks(gate, hop, asked))) for hop in hops
    )


def _only_asks(gate: Gate, hop: Hop, asked: set[str]) -> bool:
    own = hop.symbol.rpartition(".")[2]
    return gate.file.endswith(".py") and any(name.rpartition(".")[2] in asked - {own} for name in gate.names)


def _library_entry(corpus: Corpus, build: Thing, route: Route | None) -> Thing:
    """The outermost function of the build's own package on the route: what the engine calls."""
    library = corpus.owner[corpus.modules[build.module]]
    inside = [site for site in (route.sites if route else ()) if corpus.owner[site.scope.module.file] is library]
    return inside[0].caller if inside else build


def _ranked(descents: Sequence[Descent], name: str, build: Thing) -> list[Descent]:
    """The build that was asked for first, then the one whose export bears the entry's name or most of its words,
    then the nearest, then the one with the fewest other words."""
    asked, words = (build.module, build.name), tokens(name)

    def place(descent: Descent) -> tuple[bool, bool, int, int, int]:
        own = (descent.build.module.name, descent.build.name)
        export = tokens(descent.export)
        return own != asked, descent.export != name, -len(export & words), len(descent.steps), len(export - words)

    return sorted(descents, key=place)


def _refuse(recipe: Recipe, corpus: Corpus) -> None:
    where = ", ".join(f"{package.name} {package.version}".strip() for package in corpus.packages) or "no package"
    raise Refusal(
        f"The recipe {recipe.name} names {', '.join(recipe.entries) or 'no entry'}, and none of them is in {where}.",
        "Check the versions, or name another entry in a recipe of your own: ungate why SYMBOL --site DIR",
    )
