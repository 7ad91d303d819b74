"""The gates that decide whether a statement which raises is come to, and from which side.

::

    if not is_new():                 archs that the gate lets through never come here
        raise ...

    if is_new():                     the message stands in a branch of those that it lets through
        if name not in allowed:
            raise ...

A local name between a gate and the raise is followed to where it was given its value: ``ok = True`` under a gate,
``refused.append(...)`` under one, ``allowed = {...}`` in each of two branches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ungate.model import Gate, Reached, Sense, Status, Target
from ungate.trace.chain import Trace
from ungate.trace.conditions import guard_lines, guards
from ungate.trace.gates import marked
from ungate.trace.module import Scope, dotted

__all__ = ["BRANCH", "FILLS", "deciding"]

BRANCH = "branch"  # the role of a gate in whose branch the message stands
FILLS = frozenset({"add", "append", "update", "extend", "insert", "setdefault"})


@dataclass(frozen=True, slots=True)
class _Met:
    """A gate in a condition before a line. ``leads``: whether the archs that it lets through are those that go on."""

    gate: Gate
    leads: bool
    holds: bool

    def goes(self, target: Target) -> bool:
        """Whether the target goes on, or whether that is not known."""
        status = self.gate.status(target)
        return status is Status.UNKNOWN or (status is Status.OPEN) == self.leads


def deciding(trace: Trace, scope: Scope, line: int) -> tuple[Gate, ...]:
    """The gates of the conditions before a line and of the local names that they look at. One in whose branch the
    line stands has the role ``branch``."""
    file = scope.module.file
    found = trace.gates.within(file, [*guard_lines(scope, line), (line, line)])
    met = [*_met(trace, scope, line), *_through_names(trace, scope, line)]
    inside = {each.gate for each in met if each.leads}
    every = dict.fromkeys((*found, *(each.gate for each in met)))
    return tuple(
        gate
        for each in every
        for gate in marked([each], Reached.YES, BRANCH if each in inside and each.role != "choice" else "")
    )


def _before(scope: Scope, line: int) -> Iterator[tuple[ast.expr, bool]]:
    """The conditions before a line; that of an assert which has its message on the same line too."""
    yield from guards(scope, line)
    for node in scope.nodes(ast.Assert):
        if node.msg is not None and node.msg.lineno == line == (node.test.end_lineno or node.test.lineno):
            yield node.test, False


def _met(trace: Trace, scope: Scope, line: int) -> Iterator[_Met]:
    for test, holds in _before(scope, line):
        for gate in trace.gates.within(scope.module.file, [(test.lineno, test.end_lineno or test.lineno)]):
            true = (gate.sense is Sense.ALLOW) == (_negations(test, gate) % 2 == 0)  # for what it lets through
            yield _Met(gate, true == holds, holds)


def _negations(test: ast.expr, gate: Gate) -> int:
    """How often the gate's condition is negated inside a test; where it is written otherwise, the test is taken as a
    whole."""
    try:
        wanted = ast.unparse(ast.parse(gate.condition, mode="eval").body)
    except SyntaxError:
        wanted = ""

    def inside(node: ast.expr) -> int | None:
        if ast.unparse(node) == wanted:
            return 0
        for child in ast.iter_child_nodes(node):
            deeper = inside(child) if isinstance(child, ast.expr) else None
            if deeper is not None:
                return deeper + _not(node)
        return None

    found = inside(test)
    return int(_not(test)) if found is None else found


def _through_names(trace: Trace, scope: Scope, line: int) -> Iterator[_Met]:
    """The gates behind the local names that the conditions before a line look at."""
    if scope.kind != "function":
        return
    for test, holds in _before(scope, line):
        bare, wanted = test, holds
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            bare, wanted = test.operand, not holds
        if isinstance(bare, ast.Name):
            given: list[ast.stmt] = list(_filled(scope, bare.id) if wanted else _true(scope, bare.id))
            ways = [list(_way(trace, scope, node)) for node in given]
            if wanted:
                yield from _of_ways([[each for each in way if each.holds] for way in ways], ways, trace.target)
            else:
                yield from (_Met(each.gate, False, each.holds) for each in _easiest(ways, trace.target))
        elif isinstance(bare, ast.Compare):
            for name in {node.id for node in (bare.left, *bare.comparators) if isinstance(node, ast.Name)}:
                choices = _assigned(scope, name)
                for choice in choices if len(choices) > 1 or _display(choices) else ():
                    for each in _way(trace, scope, choice):
                        if each.holds:
                            yield _Met(each.gate, False, True)


def _not(test: ast.expr) -> bool:
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _assigned(scope: Scope, name: str) -> list[ast.Assign]:
    return [
        node
        for node in scope.nodes(ast.Assign)
        if any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
    ]


def _display(choices: Sequence[ast.Assign]) -> bool:
    """Whether the one value is a table or a list that is written out."""
    return len(choices) == 1 and isinstance(choices[0].value, ast.Dict | ast.List | ast.Tuple | ast.Set)


def _true(scope: Scope, name: str) -> Iterator[ast.stmt]:
    """Where a name becomes true."""
    for node in _assigned(scope, name):
        if not (isinstance(node.value, ast.Constant) and not node.value.value):
            yield node


def _filled(scope: Scope, name: str) -> Iterator[ast.stmt]:
    """Where a list that begins empty is added to."""
    begins = [each.value for each in _assigned(scope, name)] + [each.value for each in _declared(scope, name)]
    if not any(_empty(value) for value in begins):
        return
    for node in ast.walk(scope.node):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=does) as called)) if does in FILLS:
                if dotted(called.value) == name:
                    yield node
            case ast.AugAssign(target=ast.Name(id=added)) if added == name:
                yield node
            case _:
                pass


def _declared(scope: Scope, name: str) -> list[ast.AnnAssign]:
    nodes = scope.nodes(ast.AnnAssign)
    return [node for node in nodes if isinstance(node.target, ast.Name) and node.target.id == name]


def _empty(value: ast.expr | None) -> bool:
    match value:
        case ast.List(elts=[]) | ast.Dict(keys=[]) | ast.Constant(value=""):
            return True
        case ast.Call(func=ast.Name(id="list" | "set" | "dict"), args=[]):
            return True
        case _:
            return False


def _way(trace: Trace, scope: Scope, node: ast.stmt) -> Iterator[_Met]:
    """The gates before a statement, and those of the value that it gives."""
    yield from _met(trace, scope, node.lineno)
    for gate in trace.gates.within(scope.module.file, [(node.lineno, node.end_lineno or node.lineno)]):
        yield _Met(gate, True, True)


def _of_ways(shown: Sequence[Sequence[_Met]], ways: Sequence[Sequence[_Met]], target: Target) -> Iterator[_Met]:
    """Of several ways to a refusal, those that the target goes; all where it is known to go none."""
    gone = [index for index, way in enumerate(ways) if way and all(each.goes(target) for each in way)]
    for index in gone or range(len(ways)):
        yield from shown[index]


def _easiest(ways: Sequence[Sequence[_Met]], target: Target) -> Iterator[_Met]:
    """Of several ways to make a name true, those that the target can go; all where it can go none."""
    held = [[each for each in way if each.holds] for way in ways]
    free = [way for way in held if all(each.gate.status(target) is Status.OPEN for each in way)]
    for way in free or held:
        yield from way
