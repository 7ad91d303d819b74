"""Lists of architectures that are written out again and again, and names that are compared too exactly.

::

    class MmaOp:       admissible_archs = ["sm_100a", "sm_103a"]
    class LoadOp:      admissible_archs = ["sm_100a", "sm_103a"]
    class StoreOp:     admissible_archs = ["sm_100a", "sm_103a", "sm_120a"]   # one was opened

    if not arch == "sm_120a": raise ...   # beside a list that names sm_121a too

    properties.gcnArchName == "gfx1250"   # the name comes with features: gfx1250:sramecc+:xnack-

The shapes are those of cutlass#3096, cutlass#3082 and pytorch#188597. Lists that are handed to a build are left out:
each of them is one module's own.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ungate.model import Gate
from ungate.trace.chain import Trace
from ungate.trace.conditions import guards
from ungate.trace.corpus import aside
from ungate.trace.lint.branches import Branches
from ungate.trace.module import Scope, dotted

__all__ = ["Exact", "Odd", "exact", "odd", "unasked"]

_FEWEST = 3  # lists that agree, for another one to be the odd one out
_SUFFIXED = re.compile(r"\d[af]$")
_BARE = re.compile(r"^(?:sm_?|compute_)?\d{2,3}$")
_BARE_TEXT = re.compile(rb"""[!=]= *["'](?:sm_?|compute_)?\d{2,3}["']""")
_MAKER = re.compile(r"^gfx[0-9a-f]+$")


@dataclass(frozen=True, slots=True)
class Odd:
    """A gate that says something else of ``archs`` than the list ``other``, as ``count`` lists of that name do."""

    name: str
    gate: Gate
    other: Gate
    archs: tuple[int, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Exact:
    """A comparison for equality with a name that never comes alone: ``comes`` is how it comes."""

    file: str
    line: int
    symbol: str
    text: str
    comes: str


def odd(trace: Trace, only: Sequence[int]) -> Iterator[Odd]:
    """The lists of one name and folder of which a few disagree with the rest about an architecture."""
    groups: dict[tuple[str, str, str], list[Gate]] = {}
    for file in trace.gates.files:
        for gate in trace.gates.of(file) if file.endswith(".py") and not aside(file) else ():
            name = _name(trace, gate)
            if name:
                groups.setdefault((gate.package, file.rpartition("/")[0], name), []).append(gate)
    for (_, _, name), gates in groups.items():
        for passes, alike in Counter(gate.passes.yes for gate in gates).most_common(1):
            others = [gate for gate in gates if gate.passes.yes != passes]
            if alike < _FEWEST or len(others) * _FEWEST > alike:
                continue
            usual = next(gate for gate in gates if gate.passes.yes == passes)
            for gate in others:
                archs = tuple(arch for arch in only if (arch in gate.passes.yes) != (arch in passes))
                if archs:
                    yield Odd(name, gate, usual, archs, alike)


def unasked(trace: Trace, branches: Branches, only: Sequence[int]) -> Iterator[Odd]:
    """The lists of a class that name an architecture which a check of the same class, written out anew, refuses."""
    for file in trace.gates.files:
        own = [(name, gate) for gate in trace.gates.of(file) if (name := _name(trace, gate))]
        module = trace.graph.names.file(file) if own and not aside(file) else None
        for name, gate in own:
            holder = module.at(gate.line).owner("class") if module is not None else None
            for scope in holder.within() if holder is not None else ():
                for check in _refusing(branches, scope) if scope.kind == "function" else ():
                    admitted = gate.passes.yes - check.passes.yes
                    archs = tuple(arch for arch in only if arch in admitted)
                    if archs and not any(each.rpartition(".")[2] == name for each in check.names):
                        yield Odd(name, check, gate, archs, 1)


def _refusing(branches: Branches, scope: Scope) -> Iterator[Gate]:
    """The gates that stand alone before an error, or are asserted."""
    for node in ast.walk(scope.node):
        if isinstance(node, ast.Raise):
            tests = list(guards(scope, node.lineno))
            found = branches.within(scope, tests[0][0]) if len(tests) == 1 else ()
            yield from found if len(found) == 1 and not isinstance(tests[0][0], ast.BoolOp) else ()
        elif isinstance(node, ast.Assert):
            gate = branches.gate(scope, node.test, node.test)
            yield from (gate,) if gate is not None else ()


def _name(trace: Trace, gate: Gate) -> str:
    """The name that a class or a module gives a list of architectures, empty for any other gate."""
    lists = gate.pattern == "py-version-list" or (gate.pattern == "py-predicate" and "<lambda>" in gate.symbol)
    if not lists or not gate.passes.decided or gate.vendored:
        return ""
    module = trace.graph.names.file(gate.file)
    if module is None:
        return ""
    scope = module.at(gate.line)
    scope = scope if scope.kind != "function" else module.top
    for name, values in scope.values.items():
        for value in values:
            if value.lineno <= gate.line <= (value.end_lineno or value.lineno) and _is_list(value):
                return name
    return ""


def _is_list(value: ast.expr) -> bool:
    if isinstance(value, ast.List | ast.Tuple | ast.Set):
        return True
    return isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] == "filter"


def exact(trace: Trace, *, every: bool) -> Iterator[Exact]:
    """Comparisons for equality that leave out the suffix a name always has. ``every`` adds those of another maker's
    architectures, which no compute capability stands for."""
    for file in trace.corpus.reading("gcnArchName") if every else ():
        module = trace.graph.names.file(file) if not aside(file) else None
        for scope in module.top.within() if module is not None else ():
            for node in _equalities(scope):
                for one, literal in _sides(node):
                    if isinstance(one, ast.Attribute) and one.attr == "gcnArchName" and _MAKER.match(literal):
                        comes = f"{literal}:sramecc+:xnack-"
                        yield Exact(file, node.lineno, scope.name, ast.unparse(node), comes)
    for file in trace.gates.files:
        may = file.endswith(".py") and not aside(file) and _BARE_TEXT.search(trace.corpus.text(file))
        module = trace.graph.names.file(file) if may else None
        for scope in module.top.within() if module is not None else ():
            for node in _equalities(scope):
                for one, literal in _sides(node):
                    if isinstance(one, ast.Call) and _BARE.match(literal) and (comes := _returned(trace, scope, one)):
                        yield Exact(file, node.lineno, scope.name, ast.unparse(node), comes)


def _equalities(scope: Scope) -> Iterator[ast.Compare]:
    if scope.kind != "function":
        return
    for node in scope.nodes(ast.Compare):
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            yield node


def _sides(node: ast.Compare) -> Iterator[tuple[ast.expr, str]]:
    for one, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
        if isinstance(other, ast.Constant) and isinstance(other.value, str):
            yield one, other.value


def _returned(trace: Trace, scope: Scope, call: ast.Call) -> str:
    """A name with a suffix that a called function returns, where all that it returns are such names."""
    found = trace.graph.names.text(dotted(call.func), scope)
    asked = trace.graph.scope(found) if found is not None and found.kind == "function" and not found.trail else None
    shown = ""
    for node in asked.nodes(ast.Return) if asked is not None else ():
        text = _ending(asked, node.value) if asked is not None else ""
        if not text:
            return ""
        shown = shown or text
    return shown


def _ending(scope: Scope, value: ast.expr | None) -> str:
    """A text, or one that is formatted, as it is written, where it ends in an architecture's suffix."""
    match value:
        case ast.Constant(value=str() as text) if _SUFFIXED.search(text):
            return text
        case ast.JoinedStr(values=[*_, ast.FormattedValue(), ast.Constant(value="a" | "f")]):
            return ast.unparse(value).lstrip("f").strip("'\"")
        case ast.Name(id=name) if values := scope.values.get(name):
            endings = [_ending(scope, each) for each in values]
            return endings[0] if all(endings) else ""
        case _:
            return ""
