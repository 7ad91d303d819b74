"""The server's side of a feature: the flag, the attribute it is stored under, who reads it and who sets it."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import takewhile

from ungate.trace.corpus import aside
from ungate.trace.gates import Gates
from ungate.trace.graph import Graph
from ungate.trace.module import Scope, Use, dotted

_MANY = 80  # files that hold the name
_OVERRIDES = re.compile(r"overrid|resol|declare|replace", re.IGNORECASE)
_HOLDER = re.compile(r"arg|conf|cfg|option|setting|env", re.IGNORECASE)

__all__ = ["Flag", "Setting", "declared", "flag_of", "readers", "set_under", "settings"]


@dataclass(frozen=True, slots=True)
class Flag:
    """A server argument, or a configuration field where there is no argument of its own (``name`` is empty then)."""

    name: str
    attribute: str
    file: str
    line: int
    symbol: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A statement that gives the attribute a value, with the conditions it stands under, the outermost first.

    ``turns`` is on, off, or the value's text; ``unset`` tells that the conditions hold only while the attribute is
    not set.
    """

    scope: Scope
    line: int
    turns: str
    tests: tuple[ast.expr, ...]
    unset: bool

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The lines of each condition, 1-based and inclusive."""
        return tuple((test.lineno, test.end_lineno or test.lineno) for test in self.tests)


def flag_of(graph: Graph, flag: str, attribute: str, near: str = "") -> Flag | None:
    """The declaration of a flag: an ``add_argument`` call or any call or annotation that names it, else the
    class-level field of that attribute. Of several, the one whose folder is closest to the file ``near``."""
    found = list(_declarations(graph, flag, attribute))
    fields = _declared(graph, attribute)
    found.extend(field for field in fields if not found or _HOLDER.search(field.file))
    return max(found, key=lambda each: _shared(each.file, near), default=None)


def _shared(one: str, other: str) -> int:
    """How many leading folders two paths share."""
    pairs = zip(one.split("/")[:-1], other.split("/")[:-1], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _declarations(graph: Graph, flag: str, attribute: str) -> Iterator[Flag]:
    for quote in ('"', "'"):
        if not flag:
            break
        for file, offset in graph.corpus.places(f"{quote}{flag}{quote}", whole=False):
            module = graph.names.file(file) if not aside(file) else None
            if module is None:
                continue
            line = graph.corpus.line(file, offset)
            scope = module.at(line)
            call = _call_at(scope.node, line)
            if call is None:
                continue
            yield Flag(flag, _destination(call, flag) or attribute, file, line, scope.name)


def declared(graph: Graph, attribute: str) -> Flag | None:
    """The class-level field that declares an attribute, or the environment variable of that name."""
    return next(_declared(graph, attribute), None)


def _declared(graph: Graph, attribute: str) -> Iterator[Flag]:
    if attribute.isupper():
        variable = _variable(graph, attribute)
        yield from (variable,) if variable is not None else ()
        return
    flag, held = "--" + attribute.replace("_", "-"), None
    for file, offset in graph.corpus.places(f"{attribute}: ") if attribute else ():
        # A field begins its line; a parameter of that name, which may stand in every other file, mostly does not.
        text = graph.corpus.text(file)
        if aside(file) or text[text.rfind(b"\n", 0, offset) + 1 : offset].strip():
            continue
        module, line = graph.names.file(file), graph.corpus.line(file, offset)
        scope = module.at(line) if module else None
        if scope is not None and scope.kind == "class" and attribute in scope.values:
            if held is None:
                held = any(True for _ in graph.corpus.places(flag, whole=False))
            yield Flag(flag if held else "", attribute, file, line, f"{scope.name}.{attribute}")


def _variable(graph: Graph, name: str) -> Flag | None:
    """An environment variable where a package keeps a list of them (a file that is named after them)."""
    for written in (f"{name}: ", f"{name} = ", f'"{name}": '):
        for file, offset in graph.corpus.places(written, whole=False):
            if "env" in file.rpartition("/")[2]:
                line = graph.corpus.line(file, offset)
                return Flag(name, name, file, line, name)
    return None


def readers(graph: Graph, attribute: str) -> Iterator[tuple[Scope, int]]:
    """(function, line) of each read of the attribute outside the class that declares it. A name that very many files
    hold (``dtype``) counts only on something that is called arguments or configuration."""
    common = len(graph.corpus.holding(attribute)) > _MANY
    for file in graph.corpus.reading(attribute):
        for scope in graph.scopes(file, attribute):
            owner = scope.owner("class")
            if scope.kind != "function" or (owner is not None and attribute in owner.values):
                continue
            for use in scope.uses:
                if use.last == attribute and "." in use.text and not use.stored:
                    if common and not _HOLDER.search(use.text.rpartition(".")[0].rpartition(".")[2]):
                        continue
                    yield scope, use.line
                    break


def settings(graph: Graph, attribute: str, near: str = "") -> Iterator[Setting]:
    """Each assignment to the attribute after its declaration; with ``near``, only in the same part of the package
    (its first two folders), since another server of the package may have an attribute of that name."""
    part = "/".join(near.split("/")[:2]) + "/" if near.count("/") > 1 else ""
    for file in graph.corpus.holding(attribute):
        if not file.startswith(part) or aside(file):
            continue
        text = graph.corpus.text(file)
        keys = [word for word in (f'"{attribute}"', f"{attribute}=") if word.encode() in text]
        keyed = [line for word in keys for line in graph.corpus.lines(word, file)]
        for scope in graph.scopes(file, attribute):
            if scope.kind != "function":
                continue
            if any(scope.first <= line <= scope.last for line in keyed):
                yield from _entries(scope, attribute)
            lines = {use.line for use in scope.uses if use.stored and use.last == attribute and _configures(use, scope)}
            for node, conditions in _assignments(scope.node, lines):
                if _hands_through(node.value, attribute):
                    continue
                unset = any(_asks_unset(condition, attribute) for condition in conditions)
                yield Setting(scope, node.lineno, _turns(node.value), conditions, unset)


def _configures(use: Use, scope: Scope) -> bool:
    """Whether something is stored on arguments or a configuration, by the object's name or its class's: other objects
    have attributes of that name too."""
    holder = use.text.rpartition(".")[0]
    owner = scope.owner("class") if holder in ("self", "cls") else None
    if owner is not None:
        return bool(_HOLDER.search(owner.name)) or use.last in owner.values
    return bool(_HOLDER.search(holder.rpartition(".")[2]))


def _hands_through(value: ast.expr, attribute: str) -> bool:
    """Whether a value is the attribute's own, handed on from elsewhere: that decides nothing."""
    return dotted(value).rpartition(".")[2] == attribute


def set_under(graph: Graph, gates: Gates, attributes: Collection[str]) -> set[str]:
    """The attributes that are switched on under an architecture gate while they are not set."""
    found: set[str] = set()
    for file in gates.files:
        names = [name for name in attributes if file.endswith(".py") and name.encode() in graph.corpus.text(file)]
        if not names or not any(gate.role in {"use", "test"} for gate in gates.of(file)):
            continue
        module = graph.names.file(file)
        for scope in module.top.within() if module is not None else ():
            if scope.kind != "function" or not gates.between(file, scope.first, scope.last):
                continue
            lines = {use.line for use in scope.uses if use.stored and use.last in attributes and "." in use.text}
            for node, conditions in _assignments(scope.node, lines):
                ranges = [(test.lineno, test.end_lineno or test.lineno) for test in conditions]
                if _turns(node.value) == "on" and gates.within(file, ranges):
                    found.update(dotted(target).rpartition(".")[2] for target in node.targets)
    return found & set(attributes)


def _entries(scope: Scope, attribute: str) -> Iterator[Setting]:
    """Dictionaries that a function returns or hands on with the attribute as a key, and calls that are named after
    what they do to it: overrides of a configuration."""
    of_settings = bool(_OVERRIDES.search(scope.name) or _HOLDER.search(scope.name))
    pending: list[tuple[ast.AST, tuple[ast.expr, ...]]] = [(scope.node, ())]
    while pending:
        at, conditions = pending.pop()
        if isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and at is not scope.node:
            continue
        if isinstance(at, ast.Dict):
            for key, value in zip(at.keys, at.values, strict=True):
                said = isinstance(key, ast.Constant) and key.value == attribute and not _hands_through(value, attribute)
                if said and key is not None and conditions and (of_settings or _HOLDER.search(scope.module.file)):
                    unset = any(_asks_unset(condition, attribute) for condition in conditions)
                    yield Setting(scope, key.lineno, _turns(value), conditions, unset)
        if isinstance(at, ast.Call) and _OVERRIDES.search(dotted(at.func).rpartition(".")[2]):
            for keyword in at.keywords:
                if keyword.arg == attribute:
                    unset = any(_asks_unset(condition, attribute) for condition in conditions)
                    yield Setting(scope, keyword.value.lineno, _turns(keyword.value), conditions, unset)
        if isinstance(at, ast.If):
            pending.extend((child, (*conditions, at.test)) for child in at.body)
            pending.extend((child, conditions) for child in at.orelse)
        else:
            pending.extend((child, conditions) for child in ast.iter_child_nodes(at))


def _assignments(node: ast.AST, lines: set[int]) -> Iterator[tuple[ast.Assign, tuple[ast.expr, ...]]]:
    pending: list[tuple[ast.AST, tuple[ast.expr, ...]]] = [(node, ())] if lines else []
    while pending:
        at, conditions = pending.pop()
        if isinstance(at, ast.Assign) and at.lineno in lines:
            yield at, conditions
        if isinstance(at, ast.If):
            pending.extend((child, (*conditions, at.test)) for child in at.body)
            pending.extend((child, conditions) for child in at.orelse)
        else:
            pending.extend((child, conditions) for child in ast.iter_child_nodes(at) if not isinstance(child, ast.expr))


def _turns(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) and value.value is True:
        return "on"
    if isinstance(value, ast.Constant) and (value.value is False or value.value is None):
        return "off"
    return ast.unparse(value)


def _asks_unset(test: ast.expr, attribute: str) -> bool:
    """Whether ``not x.attribute`` or ``x.attribute is None`` is a conjunct of the condition."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    for part in parts:
        match part:
            case ast.UnaryOp(op=ast.Not(), operand=operand) if dotted(operand).endswith("." + attribute):
                return True
            case ast.Compare(left=left, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                if dotted(left).endswith("." + attribute):
                    return True
            case _:
                pass
    return False


def _call_at(node: ast.AST, line: int) -> ast.Call | None:
    """The innermost call that spans the line and has a string argument starting with two dashes."""
    found: ast.Call | None = None
    for child in ast.walk(node):
        if isinstance(child, ast.Call) and child.lineno <= line <= (child.end_lineno or child.lineno):
            values = [*child.args, *(keyword.value for keyword in child.keywords)]
            if any(
                isinstance(v, ast.Constant) and isinstance(v.value, str) and v.value.startswith("-") for v in values
            ):
                found = child
    return found


def _destination(call: ast.Call, flag: str) -> str:
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    return flag.lstrip("-").replace("-", "_") if dotted(call.func).endswith("add_argument") else ""
