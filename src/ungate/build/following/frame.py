"""One call of a function: its statements, in order."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ungate.build.following.expressions import ERRORS, Expressions
from ungate.build.following.values import Dotted, Function, Raised, Record, Return, Unknown

__all__ = ["Frame"]

_STEPS = 50_000


class _Next(Exception):
    """``continue``."""


class _Stop(Exception):
    """``break``."""


class Frame(Expressions):
    """One call: its names, and the statements that are worked out with them."""

    def run(self, body: Sequence[ast.stmt]) -> None:
        """Work out statements in order."""
        for statement in body:
            self.file.text.steps += 1
            if self.file.text.steps > _STEPS:
                raise Unknown("it takes too many steps to follow")
            try:
                self._statement(statement)
            except ERRORS as error:
                raise Unknown(f"line {statement.lineno} of {self.file.path.name}: {error}") from None

    def forget(self, names: set[str]) -> None:
        """From here on these are not known."""
        for name in names:
            self.names[name] = Dotted(f"{self.file.dotted}.{name}")

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Return(value=value):
                raise Return(self.value(value) if value else None)
            case ast.Assign(targets=targets, value=value):
                given = self.value(value)
                for target in targets:
                    self.assign(target, given)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, self.value(value))
            case ast.AugAssign(target=target, op=op, value=value):
                self.assign(target, self.binary(op, self.value(_loaded(target)), self.value(value)))
            case ast.If(test=test):
                self.run(statement.body if self.value(test) else statement.orelse)
            case ast.For(target=target, iter=items):
                for item in self.value(items):
                    self.assign(target, item)
                    try:
                        self.run(statement.body)
                    except _Next:
                        continue
                    except _Stop:
                        break
                else:
                    self.run(statement.orelse)
            case ast.Continue():
                raise _Next
            case ast.Break():
                raise _Stop
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.AnnAssign() | ast.Assert() | ast.FunctionDef():
                if isinstance(statement, ast.FunctionDef):
                    self.names[statement.name] = Function(self.file, statement, None, self.names)
            case ast.Expr(value=value):
                self.value(value)
            case ast.Import(names=names):
                for alias in names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    self.names[alias.asname or whole] = self.file.text.named(whole)
            case ast.ImportFrom(names=names):
                for alias in names:
                    owner = self._origin(statement)
                    self.names[alias.asname or alias.name] = self.file.text.named(f"{owner}.{alias.name}")
            case ast.Raise(exc=exception):
                raise Raised(self._said(exception))
            case ast.Try(body=body, handlers=handlers):
                try:
                    self.run(body)
                except Raised:
                    if not handlers:
                        raise
                    self.run(handlers[0].body)
                self.run(statement.finalbody)
            case ast.With(items=[item], body=body):
                frame, after = self._entered(item)
                try:
                    self.run(body)
                finally:
                    frame.run(after)
            case ast.Global(names=names):
                self.globals.update(names)
            case ast.Delete():
                pass
            case _:
                raise Unknown(f"line {statement.lineno} of {self.file.path.name} is not followed")

    def _entered(self, item: ast.withitem) -> tuple[Frame, list[ast.stmt]]:
        """The call of a function marked ``contextmanager``, up to its yield; and what it does after the block."""
        call = item.context_expr
        function = self.value(call.func) if isinstance(call, ast.Call) else None
        marks = function.node.decorator_list if isinstance(function, Function) else []
        if not isinstance(call, ast.Call) or not isinstance(function, Function) or item.optional_vars is not None:
            raise Unknown(f"line {item.context_expr.lineno} of {self.file.path.name} is not followed")
        if not any(ast.unparse(mark).rpartition(".")[2] == "contextmanager" for mark in marks):
            raise Unknown(f"the context of {function.node.name} is not followed")
        args, named = self.arguments(call)
        frame = Frame(function.file, dict(function.around), self.depth + 1)
        frame.names |= frame.bound(function.node, args, named)
        return frame, frame.until_yield(function.node.body)

    def until_yield(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Work out statements up to the one that yields; answers with those that come after it."""
        for place, statement in enumerate(body):
            rest = list(body[place + 1 :])
            match statement:
                case ast.Expr(value=ast.Yield()):
                    return rest
                case ast.Try(body=inner, finalbody=last) if any(isinstance(n, ast.Yield) for n in ast.walk(statement)):
                    return [*self.until_yield(inner), *last, *rest]
                case _:
                    self.run([statement])
        return []

    def _origin(self, statement: ast.ImportFrom) -> str:
        if not statement.level:
            return statement.module or ""
        parts = self.file.package.split(".")
        return ".".join([*parts[: len(parts) - statement.level + 1], *filter(None, [statement.module])])

    def _said(self, exception: ast.expr | None) -> str:
        try:
            if isinstance(exception, ast.Call) and exception.args:
                return str(self.value(exception.args[0]))
        except Unknown:
            pass
        return ast.unparse(exception) if exception else "an error"

    def assign(self, target: ast.expr, value: Any) -> None:
        """Give a name, the names of a tuple, an entry or a record's attribute a value."""
        match target:
            case ast.Name(id=name) if name in self.globals:
                self.file.keep(name, value)
            case ast.Name(id=name):
                self.names[name] = value
            case ast.Tuple(elts=items) | ast.List(elts=items):
                for item, each in zip(items, list(value), strict=True):
                    self.assign(item, each)
            case ast.Subscript(value=owner, slice=key):
                self.value(owner)[self.value(key)] = value
            case ast.Attribute(value=owner, attr=name) if isinstance(record := self.value(owner), Record):
                record.values[name] = value
            case _:
                raise Unknown(f"the assignment in line {target.lineno} of {self.file.path.name} is not followed")


def _loaded(target: ast.expr) -> ast.expr:
    loaded: ast.expr = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(loaded, target)
