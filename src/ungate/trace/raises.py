"""The statement that raises, as a hop: its own conditions and gates, the flags they read, and what filled the value
that they look at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ungate.model import Hop
from ungate.trace import above
from ungate.trace.chain import Trace
from ungate.trace.conditions import guards, tests_before
from ungate.trace.deciding import FILLS, deciding
from ungate.trace.message import Raised
from ungate.trace.module import Scope, Use, dotted
from ungate.trace.texts import fixed, parts_of

__all__ = ["filled_by", "flags_asked", "flags_behind", "raise_hop"]

_LONGEST = 110  # characters of an inner message that are shown


def raise_hop(trace: Trace, hit: Raised) -> Hop:
    """The raise (or the log line) with the conditions that lead to it. A gate of it is closed for the architectures
    that come to the raise."""
    scope, line = hit.scope, hit.at
    gates = deciding(trace, scope, line)
    before = above.not_gates(tests_before(trace.graph.names, scope, line), gates)
    tests = tuple(f"{scope.module.file}:{at} {text}" for at, text in before)
    does = "raises this" if hit.raises else "writes this"
    when = f"{does} where all of the following hold" if tests else does
    return Hop("raise", scope.module.file, line, scope.name or "<module>", True, gates, when, tests)


def flags_asked(trace: Trace, scope: Scope, line: int) -> tuple[tuple[str, str], ...]:
    """(server attribute, the value it is compared with or nothing) in the conditions before a line, nearest first."""
    found: dict[tuple[str, str], None] = {}
    for test, holds in reversed(list(guards(scope, line))):
        if not holds:
            continue
        compared = {id(node): value for node, value in _compared(test)}
        for use in _uses(scope, test):
            if trace.switches.flag(use, scope):
                found.setdefault((use.last, compared.get(id(use.node), "")))
    return tuple(found)


def flags_behind(trace: Trace, scope: Scope, line: int) -> tuple[str, ...]:
    """The server attributes that local names were given, in the nearest condition before a line that has any."""
    for test, _ in reversed(list(guards(scope, line))):
        names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        given = [value for name in names for value in scope.values.get(name, ()) if len(scope.values[name]) == 1]
        found = {
            use.last: None
            for value in given
            for use in scope.uses
            if use.node is value and trace.switches.flag(use, scope)
        }
        if scope.kind == "function" and found:
            return tuple(found)
    return ()


def _uses(scope: Scope, test: ast.expr) -> Iterator[Use]:
    inside = {id(node) for node in ast.walk(test)}
    yield from (use for use in scope.uses if id(use.node) in inside and not use.stored)


def _compared(test: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """(expression, value) for each equality with a text."""
    for node in ast.walk(test):
        match node:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=str(value))]):
                yield left, value
            case ast.Compare(left=left, ops=[ast.In()], comparators=[ast.List() | ast.Tuple() | ast.Set() as listed]):
                values = [each.value for each in listed.elts if isinstance(each, ast.Constant)]
                if len(values) == 1:
                    yield left, str(values[0])


def filled_by(trace: Trace, hit: Raised) -> tuple[Hop, ...]:
    """Where the values that the raising function looks at are filled, in its own class or in that of a shared object:
    one hop a statement, with the conditions it stands under, the functions in it that raise themselves, and whether
    their errors are swallowed."""
    hops: dict[tuple[str, str, int], Hop] = {}
    for owner, names in _looked_at(trace, hit):
        for scope in owner.within():
            if scope.kind != "function" or scope is hit.scope:
                continue
            for use in scope.uses:
                name = ".".join(use.text.split(".")[:2])
                if name in names and (use.stored or (use.call and use.last in FILLS)) and not _empty(scope, use):
                    hops[scope.module.file, scope.name, use.line] = _filling(trace, scope, use, name)
    return tuple(hops.values())


def _looked_at(trace: Trace, hit: Raised) -> Iterator[tuple[Scope, set[str]]]:
    """(class, its attributes as ``self.name``) that the raising function looks at."""
    owner = hit.scope.owner("class")
    if owner is not None:
        own = {use.text for use in hit.scope.uses if use.text.startswith("self.") and use.text.count(".") == 1}
        yield owner, {text for text in own if _collection(owner, text)}
    tests = [test for test, _ in guards(hit.scope, hit.at)]
    asked = [*tests, *(loop.iter for loop in hit.scope.nodes(ast.For))]
    for use in (use for test in asked for use in _uses(hit.scope, test)):
        holder, _, last = use.text.rpartition(".")
        thing = trace.graph.names.made(trace.graph.names.text(holder, hit.scope)) if holder else None
        made = trace.graph.scope(thing) if thing is not None else None
        if made is not None and made is not owner and _collection(made, f"self.{last}"):
            yield made, {f"self.{last}"}


def _collection(owner: Scope, text: str) -> bool:
    """Whether an attribute of a class begins as an empty collection, to be filled."""
    return any(
        isinstance(value, ast.List | ast.Set | ast.Dict)
        or (isinstance(value, ast.Call) and dotted(value.func) in ("set", "list", "dict"))
        for value in (*owner.values.get(text, ()), *owner.values.get(text.removeprefix("self."), ()))
    )


def _empty(scope: Scope, use: Use) -> bool:
    """Whether a statement gives the name an empty collection, to be filled later."""
    for node in ast.walk(scope.node):
        if isinstance(node, ast.Assign) and any(target is use.node for target in node.targets):
            value = node.value
            return not list(ast.iter_child_nodes(value)) or (isinstance(value, ast.Call) and not value.args)
    return False


def _filling(trace: Trace, scope: Scope, use: Use, name: str) -> Hop:
    tests = [f"{scope.module.file}:{at} {text}" for at, text in tests_before(trace.graph.names, scope, use.line)]
    statement = _statement(scope, use.line)
    swallowed = _swallowed(scope, use.line)
    for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)) if statement else ():
        found = trace.graph.names.text(dotted(call.func), scope)
        inner = trace.graph.scope(found) if found is not None and found.kind == "function" else None
        for line, text in _raised_in(inner) if inner is not None else ():
            tests.append(f"{inner.module.file if inner else ''}:{line} {inner.name if inner else ''}: {text}")
    note = f"fills {name}"
    if swallowed:
        note += f"; an error here is only logged ({scope.module.file}:{swallowed}), and {name} stays empty"
    return Hop("source", scope.module.file, use.line, scope.name, True, (), note, tuple(tests))


def _statement(scope: Scope, line: int) -> ast.stmt | None:
    inside = [
        node
        for node in ast.walk(scope.node)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return min(inside, key=lambda node: (node.end_lineno or node.lineno) - node.lineno, default=None)


def _swallowed(scope: Scope, line: int) -> int:
    """The line of the handler that catches an error of this line and does not raise again, 0 where none does."""
    for node in ast.walk(scope.node):
        if isinstance(node, ast.Try) and node.body and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0):
            for handler in node.handlers:
                if not any(isinstance(child, ast.Raise) for child in ast.walk(handler)):
                    return handler.lineno
    return 0


def _raised_in(scope: Scope) -> Iterator[tuple[int, str]]:
    """(line, message) of each raise of a function with a text of its own."""
    for node in ast.walk(scope.node):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            parts = parts_of(node.exc.args[0])
            if parts:
                yield node.lineno, f"may raise “{re.sub(r'(?<=.{' + str(_LONGEST) + r'}).+', '…', fixed(parts))}”"
