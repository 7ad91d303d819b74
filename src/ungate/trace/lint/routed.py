"""A value that one place gives a setting on an architecture, and another place refuses there.

::

    if major >= 10:
        self.decode_backend = "trtllm"  # on sm_120 too
    ...
    if self.decode_backend == "trtllm":
        if not is_sm100_supported():
            raise ValueError("the trtllm backend needs SM100")
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ungate.model import Gate
from ungate.trace.chain import Trace
from ungate.trace.conditions import guards
from ungate.trace.lint.admitted import gated, under_gates
from ungate.trace.lint.branches import Branches
from ungate.trace.module import Scope, dotted

__all__ = ["Given", "Refused", "Values", "values"]


@dataclass(frozen=True, slots=True)
class Given:
    """A statement that gives a setting a value because a gate lets the architecture through."""

    attribute: str
    value: str
    scope: Scope
    line: int
    gate: Gate
    arch: int


@dataclass(frozen=True, slots=True)
class Refused:
    """An error that is raised where a setting has a value and the architecture is not among those of a gate. ``passes``
    tells a check that lets this architecture through instead."""

    attribute: str
    value: str
    scope: Scope
    line: int
    gate: Gate
    arch: int
    passes: bool


@dataclass(frozen=True, slots=True)
class Values:
    """What the packages do with values of their settings, by architecture."""

    given: tuple[Given, ...]
    checked: tuple[Refused, ...]

    def against(self) -> Iterator[tuple[Given, Refused]]:
        """Each value that is given on an architecture on which a check of the same setting refuses it."""
        refused = {(each.attribute, each.value, each.arch): each for each in self.checked if not each.passes}
        for given in self.given:
            check = refused.get((given.attribute, given.value, given.arch))
            if check is not None and check.scope.module.file.partition("/")[0] == _top(given):
                yield given, check


def _top(given: Given) -> str:
    return given.scope.module.file.partition("/")[0]


def values(trace: Trace, branches: Branches, only: Sequence[int]) -> Values:
    """Every value that a gate gives a setting, and every check of a value by a gate."""
    given: dict[tuple[str, int, str, int], Given] = {}
    checked: list[Refused] = []
    for scope in gated(trace, only):
        for arch in only:
            for gate, node in under_gates(branches, scope, arch):
                for attribute, value, line in _assigned(node):
                    found = Given(attribute, value, scope, line, gate, arch)
                    given.setdefault((scope.module.file, line, attribute, arch), found)
        checked.extend(_checks(branches, scope, only))
    return Values(tuple(given.values()), tuple(checked))


def _assigned(node: ast.AST) -> Iterator[tuple[str, str, int]]:
    """(attribute, value, line) of a text that is stored on an object."""
    if not isinstance(node, ast.Assign):
        return
    given = node.value
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                yield target.attr, given.value, node.lineno


def _checks(branches: Branches, scope: Scope, only: Sequence[int]) -> Iterator[Refused]:
    for node in ast.walk(scope.node):
        if not isinstance(node, ast.Raise) or not scope.body <= node.lineno <= scope.last:
            continue
        tests = list(guards(scope, node.lineno))
        asked = [pair for test, holds in tests if holds for pair in _compared(test)]
        plain = [(test, holds) for test, holds in tests if not (holds and any(True for _ in _compared(test)))]
        if not asked or not plain:
            continue
        for arch in only:
            told = [(branches.told(scope, test, arch), holds) for test, holds in plain]
            if not all(verdict.gate is not None and verdict.holds is not None for verdict, _ in told):
                continue
            raises = all(verdict.holds == holds for verdict, holds in told)
            gate = told[-1][0].gate
            for attribute, value in asked:
                if gate is not None:
                    yield Refused(attribute, value, scope, node.lineno, gate, arch, not raises)


def _compared(test: ast.expr) -> Iterator[tuple[str, str]]:
    """(attribute, value) that a test asks for: ``x.backend == "a"``, or one of several in an ``or``."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=parts):
            each = [list(_compared(part)) for part in parts]
            if all(each):
                for pairs in each:
                    yield from pairs
        case ast.Compare(
            left=ast.Attribute() as left, ops=[ast.Eq()], comparators=[ast.Constant(value=str() as value)]
        ):
            yield dotted(left).rpartition(".")[2], value
        case ast.Compare(
            left=ast.Attribute() as left, ops=[ast.In()], comparators=[ast.List() | ast.Tuple() | ast.Set() as held]
        ):
            for element in held.elts:
                if isinstance(element, ast.Constant) and isinstance(element.value, str):
                    yield dotted(left).rpartition(".")[2], element.value
        case _:
            return
