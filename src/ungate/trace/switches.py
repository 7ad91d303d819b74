"""Which server flags decide whether a line of the code is come to."""

from __future__ import annotations

import re
from functools import cached_property

from ungate.trace.conditions import guard_lines
from ungate.trace.corpus import aside
from ungate.trace.graph import Graph, Site
from ungate.trace.module import Scope, Use, dotted
from ungate.trace.names import Thing
from ungate.trace.route import Influence

__all__ = ["Switches", "tokens"]

_OPTION = re.compile(rb"""["']--([a-z][a-z0-9-]*[a-z0-9])["']""")
_FIELD = re.compile(rb"^    (\w+): (?:A|Annotated|Arg)\[", re.MULTILINE)
_ANY_FIELD = re.compile(rb"^    ([a-z]\w+): ", re.MULTILINE)
_HOLDER = re.compile(r"arg|conf|cfg|option|setting|env", re.IGNORECASE)
_SHORT = 60  # lines; a longer function that reads a flag is no predicate
_COMMON = frozenset({"enable", "disable", "use", "is", "get", "flag", "flags", "server", "args", "arg", "max", "min"})
_COMMON |= {"num", "size", "tp", "dp", "pp", "ep", "model", "config", "mode", "type", "path", "name", "with", "for"}


class Switches:
    """The attributes under which servers store their flags, found where flags are declared."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @cached_property
    def attributes(self) -> frozenset[str]:
        corpus = self.graph.corpus
        found: set[str] = set()
        for file in corpus.holding("add_argument"):
            if not aside(file):
                found.update(name.decode().replace("-", "_") for name in _OPTION.findall(corpus.text(file)))
        for file in corpus.python:
            if "/arg" in file or "config" in file or "args" in file:
                pattern = _ANY_FIELD if "/config/" in file else _FIELD  # a folder of configuration classes alone
                found.update(name.decode() for name in pattern.findall(corpus.text(file)))
        return frozenset(found)

    def decides(self, site: Site, way: tuple[Site, ...]) -> tuple[Influence, bool] | None:
        """The flag that a test before the site asks for, in the function itself or in a short predicate it calls;
        and whether it shares a telling word with the functions on the way down, so that it is the feature's own."""
        if site.scope.kind != "function":
            return None
        first: Influence | None = None
        words = tokens(site.target.name).union(*(tokens(below.target.name) for below in way))
        ranges = guard_lines(site.scope, site.line)
        for use in site.scope.uses:
            if use.stored or not any(low <= use.line <= high for low, high in ranges):
                continue
            found = self._asked(site, use)
            if found is not None and words & tokens(found.attribute):
                return found, True
            first = first or found
        return (first, False) if first is not None else None

    def own(self, site: Site, way: tuple[Site, ...]) -> tuple[Influence, bool] | None:
        """As :meth:`decides`, and a flag counts as the feature's own only where it shares a telling word with what was
        started from, or two with one function on the way: any other flag that some caller further up happens to ask
        for says nothing about it."""
        found = self.decides(site, way)
        if found is None:
            return None
        words = tokens(found[0].attribute)
        entry, *between = reversed([site.target, *(below.target for below in way)])
        return found[0], bool(words & tokens(entry.name)) or any(len(words & tokens(each.name)) > 1 for each in between)

    def _asked(self, site: Site, use: Use) -> Influence | None:
        if self.flag(use, site.scope):
            return Influence(site.scope, use.line, None, use.last)
        return self._predicate(site, use) if use.call else None

    def flag(self, use: Use, scope: Scope) -> bool:
        """Whether a reference reads a server flag: an attribute of that name on something that is called arguments,
        configuration or the like, or on an object whose class declares it. Tensors have a ``dtype`` too."""
        if "." not in use.text or use.call or use.last not in self.attributes:
            return False
        holder = use.text.rpartition(".")[0].rpartition(".")[2]
        if _HOLDER.search(holder):
            return True
        owner = scope.owner("class") if holder in ("self", "cls") else None
        if owner is None:
            return False
        if owner.name.endswith("Args") or use.last in owner.values:  # a field of the class itself
            return True
        kept = map(dotted, owner.values.get(f"self.{use.last}", ()))
        return any(text.endswith(f".{use.last}") and _HOLDER.search(text.split(".")[-2]) for text in kept)

    def _predicate(self, site: Site, use: Use) -> Influence | None:
        thing = self.graph.names.use(use, site.scope)
        if thing is None or thing.kind not in ("function", "result") or thing.trail:
            return None
        asked = self.graph.scope(Thing("function", thing.module, thing.name))
        if asked is None or asked is site.scope or asked.last - asked.first > _SHORT:
            return None
        for inner in asked.uses:
            if not inner.stored and self.flag(inner, asked):
                through = Site(site.scope, use.line, Thing("function", thing.module, thing.name), True, "call", use)
                return Influence(asked, inner.line, through, inner.last)
        return None


def tokens(name: str) -> frozenset[str]:
    """The telling words of a name: ``enable_flashinfer_allreduce_fusion`` → flashinfer, allreduce, fusion."""
    parts = re.findall(r"[a-z]+[0-9]*|[A-Z][a-z0-9]+|[A-Z]+(?![a-z])", name)
    return frozenset(part.lower() for part in parts) - _COMMON
