"""One Python file as scopes: what each imports, defines, assigns and refers to."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar, cast

__all__ = ["Module", "Scope", "Use", "dotted", "read"]

Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class Use:
    """One reference. ``text`` is dotted, with ``()`` for a call and ``[]`` for a subscript on the way:
    ``get_module().run``. ``call`` tells that the last part is called, ``test`` that the reference stands
    in a condition, ``stored`` that it is assigned to."""

    text: str
    line: int
    call: bool
    test: bool
    node: ast.expr
    stored: bool = False

    @property
    def last(self) -> str:
        return self.text.rpartition(".")[2].rstrip("()[]")


@dataclass(slots=True)
class Scope:
    """A module, class or function. ``first`` (decorators included) and ``last`` are 1-based lines."""

    name: str
    kind: str
    first: int
    last: int
    node: ast.AST
    module: Module
    parent: Scope | None = None
    children: dict[str, Scope] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    values: dict[str, list[ast.expr]] = field(default_factory=dict)
    body: int = 0  # line of the def or class statement itself
    _uses: list[Use] | None = None
    _nodes: dict[type[ast.AST], list[ast.AST]] | None = None
    guards: dict[int, tuple[tuple[ast.expr, bool], ...]] | None = None  # by line, as far as they were asked for

    @property
    def uses(self) -> list[Use]:
        """Every reference of the scope itself, looked for when first asked: most scopes of a file are never."""
        if self._uses is None:
            self._uses = []
            _References(self, self._uses).all()
        return self._uses

    def nodes(self, kind: type[Node]) -> list[Node]:
        """Every node of one kind in the scope, inner functions included, in the order of ``ast.walk``."""
        if self._nodes is None:
            self._nodes = {}
            for node in ast.walk(self.node):
                self._nodes.setdefault(type(node), []).append(node)
        return cast(list[Node], self._nodes.get(kind, []))

    def owner(self, kind: str) -> Scope | None:
        """The nearest enclosing scope of that kind, itself included."""
        scope: Scope | None = self
        while scope is not None and scope.kind != kind:
            scope = scope.parent
        return scope

    def within(self) -> Iterator[Scope]:
        """This scope and every scope below it."""
        yield self
        for child in self.children.values():
            yield from child.within()


@dataclass(slots=True)
class Module:
    """A parsed file. ``scopes`` are all its scopes by qualified name; ``""`` is the module itself."""

    name: str
    file: str
    package: bool
    scopes: dict[str, Scope] = field(default_factory=dict)

    @property
    def top(self) -> Scope:
        return self.scopes[""]

    def among(self, lines: Iterable[int]) -> tuple[Scope, ...]:
        """The innermost scopes of these lines, each once."""
        return tuple({id(scope): scope for scope in map(self.at, lines)}.values())

    def at(self, line: int) -> Scope:
        """The innermost scope that holds the line."""
        scope = self.top
        while True:
            inner = next((c for c in scope.children.values() if c.first <= line <= c.last), None)
            if inner is None:
                return scope
            scope = inner


def dotted(node: ast.expr) -> str:
    """``a.b().c`` for the expression, ``?`` where it is no chain of names, calls and subscripts."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value)}.{attr}"
        case ast.Call(func=func):
            return dotted(func) + "()"
        case ast.Subscript(value=value):
            return dotted(value) + "[]"
        case _:
            return "?"


def read(name: str, file: str, text: bytes) -> Module:
    """Parse one file; SyntaxError (or ValueError for NUL bytes) where Python itself would refuse it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    module = Module(name, file, file.endswith("__init__.py"))
    last = text.count(b"\n") + 1
    top = Scope("", "module", 1, last, tree, module)
    module.scopes[""] = top
    _Structure(module).block(tree.body, top)
    return module


class _Structure:
    """Definitions, imports and assignments: what the names of a file stand for."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def block(self, body: list[ast.stmt], scope: Scope) -> None:
        for statement in body:
            self.statement(statement, scope)

    def statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.Expr() | ast.Return() | ast.Raise() | ast.Pass():
                pass
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self.definition(node, scope)
            case ast.Import(names=names):
                for alias in names:
                    origin = alias.name if alias.asname else alias.name.partition(".")[0]
                    scope.imports[alias.asname or origin] = (origin, "")
            case ast.ImportFrom():
                self.from_import(node, scope)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _store(target, value, scope)
            case ast.AnnAssign(target=target, value=value, annotation=annotation):
                _store(target, value or annotation, scope)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    if item.optional_vars is not None:
                        _store(item.optional_vars, item.context_expr, scope)
                self.block(body, scope)
            case ast.Match(cases=cases):
                for case in cases:
                    self.block(case.body, scope)
            case _:
                for name in ("body", "orelse", "finalbody"):
                    self.block(getattr(node, name, []), scope)
                for handler in getattr(node, "handlers", ()):
                    self.block(handler.body, scope)

    def definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: Scope) -> None:
        name = f"{scope.name}.{node.name}" if scope.name else node.name
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        inner = Scope(name, kind, first, node.end_lineno or node.lineno, node, self.module, scope, body=node.lineno)
        if node.name in scope.children:  # a redefinition, as overloads and try/except pairs write it
            earlier = scope.children.pop(node.name)
            scope.children[f"{node.name}@{earlier.body}"] = earlier
            self.module.scopes[f"{name}@{earlier.body}"] = earlier
        scope.children[node.name] = inner
        self.module.scopes[name] = inner
        self.block(node.body, inner)

    def from_import(self, node: ast.ImportFrom, scope: Scope) -> None:
        origin = node.module or ""
        if node.level:
            parts = self.module.name.split(".")
            keep = len(parts) - node.level + (1 if self.module.package else 0)
            origin = ".".join([*parts[: max(keep, 0)], *([origin] if origin else [])])
        for alias in node.names:
            if alias.name == "*":
                scope.stars.append(origin)
            else:
                scope.imports[alias.asname or alias.name] = (origin, alias.name)


def _store(target: ast.expr, value: ast.expr, scope: Scope) -> None:
    match target:
        case ast.Name(id=name):
            scope.values.setdefault(name, []).append(value)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = scope.owner("class")
            if owner is not None:
                owner.values.setdefault(f"self.{name}", []).append(value)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            for index, element in enumerate(elements):
                _store(element, values[index] if len(values) == len(elements) else value, scope)
        case _:
            pass


class _References:
    """The references of one scope, those of inner functions and classes left out."""

    def __init__(self, scope: Scope, uses: list[Use]) -> None:
        self.scope = scope
        self.uses = uses

    def all(self) -> None:
        node = self.scope.node
        for decorator in getattr(node, "decorator_list", ()):
            self.expression(decorator)
        match node:
            case ast.ClassDef(bases=bases, keywords=keywords):
                for base in (*bases, *(keyword.value for keyword in keywords)):
                    self.expression(base)
            case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args):
                for default in (*args.defaults, *(d for d in args.kw_defaults if d)):
                    self.expression(default)
            case _:
                pass
        self.block(getattr(node, "body", []))

    def block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Import() | ast.ImportFrom():
                pass
            case ast.If(test=test, body=body, orelse=orelse) | ast.While(test=test, body=body, orelse=orelse):
                self.expression(test, test=True)
                self.block(body)
                self.block(orelse)
            case ast.Assert(test=test, msg=msg):
                self.expression(test, test=True)
                if msg:
                    self.expression(msg)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.store(target)
                self.expression(value)
            case ast.AnnAssign(target=target, value=value):
                self.store(target)
                if value:
                    self.expression(value)
            case _:
                for child in ast.iter_child_nodes(node):
                    self.node(child)

    def node(self, node: ast.AST, *, test: bool = False) -> None:
        match node:
            case ast.stmt():
                self.statement(node)
            case ast.expr():
                self.expression(node, test=test)
            case ast.withitem(context_expr=value, optional_vars=target):
                self.expression(value)
                if target is not None:
                    self.store(target)
            case _:
                for child in ast.iter_child_nodes(node):
                    self.node(child, test=test)

    def store(self, target: ast.expr) -> None:
        match target:
            case ast.Name():
                pass
            case ast.Attribute():
                self.uses.append(Use(dotted(target), target.lineno, False, False, target, stored=True))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for element in elements:
                    self.store(element)
            case _:
                self.expression(target)

    def expression(self, node: ast.expr, *, test: bool = False, call: bool = False) -> None:
        match node:
            case ast.Name(id=name):
                self.uses.append(Use(name, node.lineno, call, test, node))
            case ast.Attribute() | ast.Subscript():
                text = dotted(node)
                self.uses.append(Use(text, node.end_lineno or node.lineno, call, test, node))
                if isinstance(node, ast.Subscript):
                    self.expression(node.slice, test=test)
                self.inside(node.value, test=test)
            case ast.Call(func=func, args=arguments, keywords=keywords):
                self.expression(func, test=test, call=True)
                for argument in arguments:
                    self.expression(argument, test=test)
                for keyword in keywords:
                    self.expression(keyword.value, test=test)
            case ast.IfExp(test=condition, body=body, orelse=orelse):
                self.expression(condition, test=True)
                self.expression(body, test=test)
                self.expression(orelse, test=test)
            case ast.BoolOp(values=values):
                for value in values:
                    self.expression(value, test=True)
            case ast.NamedExpr(target=target, value=value):
                _store(target, value, self.scope)
                self.expression(value, test=test)
            case ast.Lambda(body=body):
                self.expression(body, test=test)
            case ast.Constant():
                pass
            case _:
                for child in ast.iter_child_nodes(node):
                    self.node(child, test=test)

    def inside(self, node: ast.expr, *, test: bool) -> None:
        """What a chain holds below its last part: calls on the way are calls, bare names are part of the chain."""
        match node:
            case ast.Name():
                pass
            case ast.Attribute(value=value):
                self.inside(value, test=test)
            case _:
                self.expression(node, test=test)
