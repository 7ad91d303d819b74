"""Who refers to whom: callers of a function over all packages, and what a function refers to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ungate.trace.corpus import Corpus, aside
from ungate.trace.module import Scope, Use, dotted
from ungate.trace.names import Names, Thing
from ungate.trace.ops import Operators
from ungate.trace.registries import Registries

__all__ = ["Graph", "Site"]

_FEW = 3  # definitions of one name
_MANY = 60  # files that hold a name which several functions bear: too common to be followed
_COMMON = frozenset({"__init__", "__call__", "forward", "run", "apply", "call", "get", "load", "build", "plan", "main"})


@dataclass(frozen=True, slots=True)
class Site:
    """A reference from ``scope`` (a function, class or module body) at ``line`` to ``target``.

    ``verified`` is True where the name resolves to the target, None where only the name agrees.
    ``how`` is one of call, reference, method, operator, registry.
    """

    scope: Scope
    line: int
    target: Thing
    verified: bool | None
    how: str
    use: Use

    @property
    def caller(self) -> Thing:
        return Thing("class" if self.scope.kind == "class" else "function", self.scope.module.name, self.scope.name)


class Graph:
    """Edges between functions, resolved when asked for."""

    def __init__(self, corpus: Corpus, builds: Callable[[Corpus, Scope], bool]) -> None:
        self.corpus = corpus
        self.names = Names(corpus, builds)
        self.operators = Operators(corpus, self.names)
        self.registries = Registries(corpus, self.names)
        self._callers: dict[Thing, tuple[Site, ...]] = {}

    def scope(self, thing: Thing) -> Scope | None:
        return self.names.scope(thing)

    def callers(self, thing: Thing) -> tuple[Site, ...]:
        """Every reference to a function or class, verified ones first."""
        if thing not in self._callers:
            taken = (Site(at, use.line, thing, True, "registry", use) for at, use in self.registries.readers(thing))
            sites = [*self._named(thing), *self._through_operator(thing), *taken]
            self._callers[thing] = tuple(sorted(sites, key=lambda site: (site.verified is None, site.how != "call")))
        return self._callers[thing]

    def _named(self, thing: Thing) -> Iterator[Site]:
        bare = thing.name.rpartition(".")[2]
        scope = self.scope(thing)
        is_method = scope is not None and scope.parent is not None and scope.parent.kind == "class"
        for file in self._files(thing, bare, scope if is_method else None):
            module = self.names.file(file) if not aside(file) else None
            if module is None:
                continue
            for inside in self.scopes(file, bare):
                for use in inside.uses:
                    if use.stored or use.last != bare:
                        continue
                    found = self.names.use(use, inside)
                    if self.same(found, thing):
                        if inside.name != thing.name or inside.module.name != thing.module:
                            yield Site(inside, use.line, thing, True, "call" if use.call else "reference", use)
                    elif found is None and is_method and "." in use.text and use.text not in _own(bare):
                        unique = use.call and self.definitions(bare) == 1 and bare not in _COMMON
                        yield Site(inside, use.line, thing, True if unique else None, "method", use)

    def _files(self, thing: Thing, bare: str, method: Scope | None) -> tuple[str, ...]:
        """The files that may refer to a name. A method that many classes have is looked for only where its class,
        or the module of its class, is named as well: an object comes from one of the two."""
        own = self.corpus.modules.get(thing.module, "")
        if bare == "main" or not own:
            return ()
        files = self.corpus.referring(bare, own)
        users = self.corpus.users(own)
        if sum(1 for _ in self.corpus.places(f"def {bare}", among=users)) <= _FEW:
            return files
        if method is None or method.parent is None:
            return files if len(files) <= _MANY else ()
        owner = method.parent.name.rpartition(".")[2]
        stem = method.module.name.rpartition(".")[2]
        near = {own, *self.corpus.holding(owner, users), *self.corpus.holding(stem, users)}
        return tuple(file for file in files if file in near)

    def scopes(self, file: str, word: str) -> tuple[Scope, ...]:
        """The innermost scopes of a file on whose own lines a word stands: only they can refer to it."""
        module = self.names.file(file)
        return module.among(self.corpus.lines(word, file)) if module is not None else ()

    def same(self, found: Thing | None, thing: Thing) -> bool:
        """Whether two things are the same definition, an instance or a result counting as its origin."""
        return found is not None and found.module == thing.module and found.name == thing.name and not found.trail

    def definitions(self, name: str) -> int:
        """How many ``def name`` stand in the packages."""
        return sum(1 for _ in self.corpus.places(f"def {name}"))

    def _through_operator(self, thing: Thing) -> Iterator[Site]:
        for name in self.operators.names_of(thing):
            for file in self.corpus.holding(name):
                module = self.names.file(file)
                for inside in module.top.within() if module else ():
                    for use in inside.uses:
                        parts = use.text.split(".")
                        if parts[:2] == ["torch", "ops"] and name in parts:
                            yield Site(inside, use.line, thing, True, "operator", use)
                yield from self._aliased(module.top, name, thing) if module else ()

    def _aliased(self, top: Scope, name: str, thing: Thing) -> Iterator[Site]:
        """References to a module-level name that holds the operator."""
        operator = f".{name}"
        names = {
            alias
            for alias, values in top.values.items()
            for text in map(dotted, values)
            if text.startswith("torch.ops.") and operator in text
        }
        for inside in top.within() if names else ():
            for use in inside.uses:
                if inside.name and use.text in names and not use.stored:
                    yield Site(inside, use.line, thing, True, "operator", use)

    def meaning(self, use: Use, scope: Scope) -> Thing | None:
        """What a reference stands for, registered operators and their aliases included."""
        found = self.operators.target(use.text) or self.names.use(use, scope)
        if found is not None and found.kind == "outside" and found.module == "torch":
            return self.operators.target(f"torch.{found.name}") or found
        return found

    def callees(self, scope: Scope) -> Iterator[tuple[Use, Thing]]:
        """What a function itself refers to, each with what it stands for. A function that only hands out its
        inner functions does not thereby call them."""
        handed = _returned_lines(scope) if scope.children else frozenset()
        for use in scope.uses:
            if use.stored or (not use.call and use.text in scope.children and use.line in handed):
                continue
            found = self.meaning(use, scope)
            if found is not None and found.kind in ("function", "class", "instance", "result", "native"):
                yield use, found


def _own(name: str) -> tuple[str, str]:
    """How an object's own attribute is written. Where the code does not say what it is, it is no method of the class,
    nor then of another one."""
    return f"self.{name}", f"cls.{name}"


def _returned_lines(scope: Scope) -> frozenset[int]:
    """The lines of a function's own return statements."""
    lines: set[int] = set()
    for node in ast.walk(scope.node):
        if isinstance(node, ast.Return):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)
