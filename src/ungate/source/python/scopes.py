"""What names are bound to in a module, a class or a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ungate.source.python.cases import branches
from ungate.source.reader import Unreadable

if TYPE_CHECKING:
    from ungate.source.python.module import ClassBody, PythonModule

__all__ = ["Binding", "Guard", "Scope", "bind", "is_transparent", "last"]


_RAISED = ast.Constant(value=None)


@dataclass(frozen=True, eq=False, slots=True)
class Guard:
    """An ``if`` that a statement stands under; ``holds`` is False in its else branch."""

    test: ast.expr
    holds: bool


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Binding:
    """One place that gives a name a value.

    ``kind`` is assign, element (a loop or comprehension target: ``node`` is what is iterated), filled (an element is
    added to an empty list or set), def, class, import, from, param or other. ``path`` are the indices of an unpacking.
    ``line`` is the line in the file.
    """

    kind: str
    node: ast.AST
    line: int
    scope: Scope
    path: tuple[int, ...] = ()
    dotted: str = ""
    shift: int = 0
    body: ClassBody | None = None
    guards: tuple[Guard, ...] = ()


@dataclass(eq=False, slots=True, repr=False)
class Scope:
    """The names of a module, class or function body. ``shift`` turns a node's line into the file's."""

    module: PythonModule
    parent: Scope | None
    kind: str
    shift: int
    node: ast.AST | None = None
    owner: ClassBody | None = None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    children: dict[int, Scope] = field(default_factory=dict)
    values: dict[Any, Any] = field(default_factory=dict)

    def lookup(self, name: str) -> tuple[Binding, ...]:
        """The bindings of a name made in this very scope; none where the text around it cannot be parsed."""
        try:
            if self.kind == "module":
                return self.module.lookup(name)
            if self.kind == "class" and self.owner is not None:
                return self.module.member(self.owner, name)
        except Unreadable:
            return ()
        return tuple(self.bindings.get(name, ()))

    def inner(self, node: ast.AST, shift: int) -> Scope:
        """The scope of a function or class that is defined here; ``shift`` is that of the parsed piece."""
        made = self.children.get(id(node))
        if made is None:
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            made = self.children[id(node)] = Scope(self.module, self, kind, shift, node)
            if isinstance(node, ast.ClassDef):
                bind(made, node.body)
            else:
                _bind_parameters(made, node)
                body = getattr(node, "body", [])
                if isinstance(body, list):
                    bind(made, body)
        return made

    def close(self) -> None:
        """Let go of what was bound, so that nothing holds itself."""
        for child in self.children.values():
            child.close()
        self.children.clear()
        self.bindings.clear()
        self.values.clear()
        self.owner = None

    @property
    def qualname(self) -> str:
        """Dotted name inside the module: ``Class.method``."""
        names = []
        scope: Scope | None = self
        while scope is not None and scope.kind != "module":
            names.append(getattr(scope.node, "name", "<lambda>"))
            scope = scope.parent
        return ".".join(reversed(names))


def last(node: ast.AST) -> str:
    """The last word of a name, an attribute, or what is called by one; empty for other expressions."""
    match node:
        case ast.Name(id=spelled):
            return spelled
        case ast.Attribute(attr=attr):
            return attr
        case ast.Call(func=function):
            return last(function)
        case _:
            return ""


def is_transparent(node: ast.AST) -> bool:
    """Whether a call hands on its argument: ``const_expr(x)`` of the DSLs says that x is known when code is made."""
    return (
        isinstance(node, ast.Call)
        and len(node.args) == 1
        and not node.keywords
        and last(node.func) in ("const_expr", "constexpr")
    )


def _bind_parameters(scope: Scope, node: ast.AST) -> None:
    arguments = getattr(node, "args", None)
    if not isinstance(arguments, ast.arguments):
        return
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        scope.bindings.setdefault(each.arg, []).append(Binding("param", each, each.lineno + scope.shift, scope))
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            scope.bindings.setdefault(extra.arg, []).append(Binding("other", extra, extra.lineno + scope.shift, scope))


def _is_empty(node: ast.AST) -> bool:
    match node:
        case ast.List(elts=[]) | ast.Call(func=ast.Name(id="list" | "set"), args=[], keywords=[]):
            return True
        case _:
            return False


class _Binder:
    def __init__(self, scope: Scope, into: Scope) -> None:
        self.bindings = scope.bindings
        self.shift = scope.shift
        self.scope = into
        self.guards: tuple[Guard, ...] = ()

    def add(
        self, name: str, kind: str, node: ast.AST, at: ast.AST, path: tuple[int, ...] = (), dotted: str = ""
    ) -> None:
        line = getattr(at, "lineno", 0) + self.shift
        made = Binding(kind, node, line, self.scope, path, dotted, self.shift, guards=self.guards)
        self.bindings.setdefault(name, []).append(made)

    def target(self, target: ast.expr, kind: str, value: ast.AST, path: tuple[int, ...] = ()) -> None:
        match target:
            case ast.Name(id=name):
                self.add(name, kind, value, target, path)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attr):
                self.add(f"self.{attr}", kind, value, target, path)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for index, element in enumerate(elements):
                    if isinstance(element, ast.Starred):
                        self.target(element.value, "other", value)
                        break
                    self.target(element, kind, value, (*path, index))

    def statements(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            self.statement(node)

    def under(self, test: ast.expr, holds: bool, body: Iterable[ast.stmt]) -> None:
        before = self.guards
        self.guards = (*before, Guard(test, holds))
        self.statements(body)
        self.guards = before

    def walrus(self, node: ast.AST) -> None:
        if not self.scope.module.has_walrus:
            return
        for each in ast.walk(node):
            if isinstance(each, ast.NamedExpr):
                self.target(each.target, "assign", each.value)

    def filling(self, node: ast.expr) -> None:
        """``bad.append(device)`` under a test, where ``bad`` is empty before."""
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "add")) if self.guards:
                if any(_is_empty(each.node) for each in self.bindings.get(name, ())):
                    self.add(name, "filled", node, node)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.target(target, "assign", value)
                self.walrus(value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.target(target, "assign", value)
            case ast.AnnAssign(target=target, annotation=annotation):
                self.target(target, "annotated", annotation)
            case ast.AugAssign(target=target):
                self.target(target, "augmented", node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.add(name, "def", node, node)
            case ast.ClassDef(name=name):
                self.add(name, "class", node, node)
            case ast.Import(names=names):
                for alias in names:
                    name = alias.asname or alias.name.split(".")[0]
                    self.add(name, "import", node, node, dotted=alias.name if alias.asname else name)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = "." * level + (module or "")
                for alias in names:
                    self.add(alias.asname or alias.name, "from", node, node, dotted=f"{base}:{alias.name}")
            case ast.If(test=test, body=body, orelse=orelse):
                self.walrus(test)
                self.under(test, True, body)
                self.under(test, False, orelse)
            case ast.For(target=target, iter=iterated) | ast.AsyncFor(target=target, iter=iterated):
                self.target(target, "element", iterated)
                self.statements(node.body)
                self.statements(node.orelse)
            case ast.While(test=test, body=body, orelse=orelse):
                self.walrus(test)
                self.statements(body)
                self.statements(orelse)
            case ast.Try() | ast.TryStar():
                self.statements(node.body)
                for handler in node.handlers:
                    self.under(_RAISED, True, handler.body)
                self.statements(node.orelse)
                self.statements(node.finalbody)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    if item.optional_vars is not None:
                        self.target(item.optional_vars, "other", item.context_expr)
                self.statements(body)
            case ast.Match():
                self.statements(branches(node))
            case ast.Expr(value=value) | ast.Return(value=ast.expr() as value):
                self.filling(value)
                self.walrus(value)
            case ast.Global() | ast.Nonlocal():
                for name in node.names:
                    self.add(name, "global", node, node)
            case _:
                pass


def bind(scope: Scope, body: Iterable[ast.stmt], *, into: Scope | None = None) -> None:
    """Collect what ``body`` binds into ``scope.bindings``; the bindings evaluate in ``into`` (default: ``scope``)."""
    _Binder(scope, into or scope).statements(body)
