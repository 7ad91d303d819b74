"""A value of a flag, such as the name of a backend: what is registered under it, or chosen where it is compared.

The value is followed through the code's own words for it: a registering decorator, a table, a member of an
enumeration and the predicates that ask for that member, and comparisons with the text itself.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ungate.trace.conditions import guards
from ungate.trace.corpus import aside
from ungate.trace.graph import Graph
from ungate.trace.module import Scope, Use, dotted
from ungate.trace.names import Thing
from ungate.trace.route import thing_of
from ungate.trace.switches import tokens

__all__ = [
    "Asked",
    "asked_for",
    "asking_member",
    "by_path",
    "enumerations",
    "members",
    "places_of",
    "registered",
    "under",
]

_MOST_PLACES = 400
_SAID_BY_ALL = frozenset({"runner", "backend"})  # words of an enumeration's name that tell it from no other
_SHORT = 40  # lines; a longer function that compares is no predicate


@dataclass(frozen=True, slots=True)
class Asked:
    """A condition that asks for the value: in ``scope`` at ``line``. ``node`` is the expression that is true for it;
    ``through`` the predicate that compares, where it is not the function itself; ``name`` what is compared."""

    scope: Scope
    line: int
    node: ast.expr
    through: Scope | None
    name: str


def places_of(graph: Graph, value: str) -> Iterator[tuple[Scope, int]]:
    """(scope, line) of each text literal that is the value."""
    count = 0
    for quote in ('"', "'"):
        for file, offset in graph.corpus.places(f"{quote}{value}{quote}", whole=False):
            module = graph.names.file(file) if not aside(file) else None
            count += 1
            if count > _MOST_PLACES:
                return
            if module is not None:
                line = graph.corpus.line(file, offset)
                yield module.at(line), line


def registered(graph: Graph, value: str) -> Iterator[tuple[Thing, str]]:
    """(function or class, the words around) that a decorator or a table gives the name."""
    for scope, line in places_of(graph, value):
        if scope.kind in ("function", "class") and scope.first <= line < scope.body:
            yield thing_of(scope), _decorators(scope)
            continue
        for node in scope.nodes(ast.Dict) if scope.kind != "class" else ():
            if node.lineno <= line <= (node.end_lineno or 0):
                for key, held in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == value:
                        found = graph.names.text(dotted(held), scope)
                        if found is not None and found.kind in ("function", "class"):
                            yield found, _assigned(scope, node)

    yield from by_path(graph, value)


def by_path(graph: Graph, name: str) -> Iterator[tuple[Thing, str]]:
    """(what a member of an enumeration names by its dotted path, the enumeration's name)."""
    yield from ((thing, scope.name) for thing, scope, _ in members(graph, name))


def members(graph: Graph, name: str) -> Iterator[tuple[Thing, Scope, int]]:
    """(what a member of an enumeration names by its dotted path, the enumeration, the member's line)."""
    for file, offset in graph.corpus.places(f"{name} = "):
        module = graph.names.file(file) if not aside(file) else None
        line = graph.corpus.line(file, offset)
        scope = module.at(line) if module is not None else None
        if scope is None or scope.kind != "class" or not _enumeration(scope):
            continue
        for value in scope.values.get(name, ()):
            path = value.value if isinstance(value, ast.Constant) else None
            origin, _, inner = path.rpartition(".") if isinstance(path, str) else ("", "", "")
            if origin in graph.corpus.modules:
                found = graph.names.attribute(Thing("module", origin), inner)
                if found is not None:
                    yield found, scope, line


def enumerations(graph: Graph, name: str) -> Iterator[Scope]:
    """The enumerations that have a member of that name."""
    for file, offset in graph.corpus.places(f"{name} = "):
        module = graph.names.file(file) if not aside(file) else None
        scope = module.at(graph.corpus.line(file, offset)) if module is not None else None
        if scope is not None and scope.kind == "class" and _enumeration(scope) and name in scope.values:
            yield scope


def _decorators(scope: Scope) -> str:
    nodes = getattr(scope.node, "decorator_list", [])
    return " ".join(dotted(node).rstrip("()") for node in nodes)


def _assigned(scope: Scope, table: ast.Dict) -> str:
    return next((name for name, values in scope.values.items() if any(value is table for value in values)), "")


def asked_for(graph: Graph, value: str, words: frozenset[str] = frozenset()) -> Iterator[Asked]:
    """Every condition that is true for the value. With ``words``, only where what is compared shares one of them."""
    for scope, line in places_of(graph, value):
        if scope.kind == "class" and _enumeration(scope) and (not words or words & tokens(scope.name)):
            for name, member in scope.values.items():
                if any(isinstance(each, ast.Constant) and each.value == value for each in member):
                    yield from asking_member(graph, scope, name)
        if scope.kind in ("function", "module"):
            yield from _keyed(graph, scope, line, value, words)
        if scope.kind == "function":
            for node, name in _comparisons(scope, line, value):
                if not words or words & tokens(name):
                    yield from _wider(graph, Asked(scope, node.lineno, node, None, name))


def _keyed(graph: Graph, scope: Scope, line: int, value: str, words: frozenset[str]) -> Iterator[Asked]:
    """Conditions that ask for the member of an enumeration which a table gives for the value."""
    for node in scope.nodes(ast.Dict):
        if not node.lineno <= line <= (node.end_lineno or 0):
            continue
        for key, held in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == value and isinstance(held, ast.Attribute):
                found = graph.names.text(dotted(held.value), scope)
                owner = graph.scope(found) if found is not None and found.kind == "class" else None
                if owner is not None and _enumeration(owner) and (not words or words & tokens(owner.name)):
                    yield from asking_member(graph, owner, held.attr)


def _enumeration(scope: Scope) -> bool:
    return isinstance(scope.node, ast.ClassDef) and any("Enum" in dotted(base) for base in scope.node.bases)


def _comparisons(scope: Scope, line: int, value: str) -> Iterator[tuple[ast.expr, str]]:
    for node in scope.nodes(ast.Compare):
        if node.lineno <= line <= (node.end_lineno or 0) and len(node.ops) == 1:
            constants = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
            if value in constants and isinstance(node.ops[0], ast.Eq | ast.In):
                yield node, dotted(node.left)


def asking_member(graph: Graph, owner: Scope, name: str) -> Iterator[Asked]:
    """Conditions that compare with a member of an enumeration, and those that call a predicate which does."""
    bare = owner.name.rpartition(".")[2]
    for file in graph.corpus.reading(name):
        for scope in graph.scopes(file, name):
            for use in scope.uses if scope.kind == "function" else ():
                parts = use.text.removesuffix(".value").split(".")  # an enumeration compares members or their values
                if parts[-1] != name or use.stored or parts[-2:-1] not in ([bare], ["self"], ["cls"]):
                    continue
                for node in scope.nodes(ast.Compare):
                    if any(child is use.node for child in ast.walk(node)):
                        yield from _wider(graph, Asked(scope, node.lineno, node, None, bare))


def _wider(graph: Graph, asked: Asked) -> Iterator[Asked]:
    """The condition itself, or where it is what a short predicate answers, every condition that calls that one."""
    scope = asked.scope
    answers = [node for node in scope.nodes(ast.Return) if node.value is not None]
    inside = any(any(child is asked.node for child in ast.walk(node)) for node in answers)
    if not inside or scope.last - scope.first > _SHORT:
        yield asked
        return
    bare = scope.name.rpartition(".")[2]
    for file in graph.corpus.referring(bare, scope.module.file):
        for caller in graph.scopes(file, bare):
            for use in caller.uses if caller.kind == "function" and caller is not scope else ():
                if use.last == bare and use.call and (name := _answers(graph, use, caller, scope, asked.name)):
                    yield Asked(caller, use.line, use.node, scope, name)
                    yield from _kept(graph, Asked(caller, use.line, use.node, scope, name))


def _answers(graph: Graph, use: Use, caller: Scope, predicate: Scope, name: str) -> str:
    """What is asked by a call of a predicate's name, empty where it is another predicate. Where the code does not
    say on which object it is called, the object's own words have to do."""
    found = graph.names.use(use, caller)
    if found is not None and found.kind != "result":
        return name if (found.module, found.name) == (predicate.module.name, predicate.name) else ""
    if graph.definitions(use.last) == 1:
        return name
    holder = use.text.rpartition(".")[0]
    telling = tokens(name) - _SAID_BY_ALL
    return holder if telling and telling <= tokens(holder) else ""


def _kept(graph: Graph, asked: Asked) -> Iterator[Asked]:
    """Conditions that ask for a name under which the answer was kept: ``self.use_it = backend.is_it()``."""
    for node in asked.scope.nodes(ast.Assign):
        if len(node.targets) != 1:
            continue
        if not any(each.func is asked.node for each in ast.walk(node.value) if isinstance(each, ast.Call)):
            continue
        target = dotted(node.targets[0])
        for scope in _near(graph, asked.scope, target):
            for use in scope.uses:
                same = use.text == target if "." not in target else use.last == target.rpartition(".")[2]
                if same and use.test and not use.stored:
                    yield Asked(scope, use.line, use.node, asked.through, asked.name)


def _near(graph: Graph, scope: Scope, target: str) -> Iterator[Scope]:
    """The functions that may read a name: the function itself for a local one, else all that hold it."""
    if "." not in target:
        yield scope
        return
    for file in graph.corpus.reading(target.rpartition(".")[2]):
        yield from (each for each in graph.scopes(file, target.rpartition(".")[2]) if each.kind == "function")


def under(asked: Asked) -> Callable[[int], bool]:
    """Tells of lines of the same function whether they are come to only where the condition is true."""
    node, known = asked.node, dict[int, bool]()

    def told(line: int) -> bool:
        if line not in known:
            known[line] = any(
                (negated := _negations(test, node)) is not None and holds == (negated % 2 == 0)
                for test, holds in guards(asked.scope, line)
                if test.lineno <= node.lineno <= (test.end_lineno or test.lineno)
            )
        return known[line]

    return told


def _negations(test: ast.expr, node: ast.expr) -> int | None:
    """How often the node is negated inside a test, None where it is not in it."""
    if test is node:
        return 0
    for child in ast.iter_child_nodes(test):
        if isinstance(child, ast.expr):
            inner = _negations(child, node)
            if inner is not None:
                return inner + (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))
    return None
