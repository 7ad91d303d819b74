"""What a function returns, read from its statements for all known architectures at once.

A test that is not about the architecture is taken both ways, and the way that speaks of the architecture counts; a
raise counts as no answer. Loops are read once, handlers of exceptions not at all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ungate.source.python import names
from ungate.source.python.cases import branches
from ungate.source.python.operators import choose, either_free
from ungate.source.python.seeds import OTHER_MAKERS
from ungate.source.python.values import FREE, ByArch, Each, FunctionValue, Instance, Value

if TYPE_CHECKING:
    from ungate.source.python.evaluate import Evaluator, Frame

__all__ = ["run"]


class _Raised:
    """The value of a path that raises."""


_RAISED = _Raised()
_LONGEST = 120


def run(
    ev: Evaluator, function: FunctionValue, arguments: tuple[Value, ...], keywords: Mapping[str, Value], depth: int
) -> Value:
    """The value that a function returns for these arguments."""
    from ungate.source.python.evaluate import Frame

    node = function.node
    env = _bind(ev, function, arguments, keywords, depth)
    scope = function.scope.inner(node, function.shift)
    frame = Frame(scope, 1 << 30, env, function.closure, depth + 1)
    if isinstance(node, ast.Lambda):
        return ev.value(node.body, frame)
    if (node.end_lineno or 0) - node.lineno > _LONGEST or _is_generator(function):
        return FREE
    value = _Reader(ev, scope, function.closure, depth + 1).block(node.body, env)
    return FREE if value is _RAISED else value


def _is_generator(function: FunctionValue) -> bool:
    module, node = function.scope.module, function.node
    start, end = module.span(node, node, function.shift)
    return module.data.find(b"yield", start, end) >= 0


def _bind(
    ev: Evaluator, function: FunctionValue, arguments: tuple[Value, ...], keywords: Mapping[str, Value], depth: int
) -> dict[str, Value]:
    from ungate.source.python.evaluate import Frame

    parameters = function.node.args
    ordered = [*parameters.posonlyargs, *parameters.args]
    env: dict[str, Value] = {}
    outside = Frame(function.scope, 1 << 30, depth=depth + 1)
    for parameter, default in zip(reversed(ordered), reversed(parameters.defaults), strict=False):
        env[parameter.arg] = ev.value(default, outside)
    for parameter, keyword_default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
        env[parameter.arg] = ev.value(keyword_default, outside)
    given = list(arguments)
    if function.bound is not FREE and not _is_static(function.node):
        receiver = function.bound if isinstance(function.bound, Instance) else Instance(function.bound)
        given.insert(0, receiver)
    env.update(zip((parameter.arg for parameter in ordered), given, strict=False))
    env.update(keywords)
    for parameter in (*ordered, *parameters.kwonlyargs):
        env.setdefault(parameter.arg, FREE)
    for extra in (parameters.vararg, parameters.kwarg):
        if extra is not None:
            env[extra.arg] = FREE
    return env


def _is_static(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in getattr(node, "decorator_list", ()))


class _Reader:
    def __init__(self, ev: Evaluator, scope: object, closure: Frame | None, depth: int) -> None:
        from ungate.source.python.scopes import Scope

        assert isinstance(scope, Scope)
        self.ev = ev
        self.scope = scope
        self.closure = closure
        self.depth = depth
        self.forks = 0

    def frame(self, env: dict[str, Value]) -> Frame:
        from ungate.source.python.evaluate import Frame

        return Frame(self.scope, 1 << 30, env, self.closure, self.depth)

    def block(self, body: list[ast.stmt], env: dict[str, Value]) -> Value:
        """What is returned from here to the end of the function; None where it falls off its end."""
        for index, node in enumerate(body):
            rest = body[index + 1 :]
            match node:
                case ast.Return(value=None):
                    return None
                case ast.Return(value=ast.expr() as value):
                    return self.ev.value(value, self.frame(env))
                case ast.Raise():
                    return _RAISED
                case ast.If():
                    return self.fork(node, rest, env)
                case ast.Match():
                    return self.block([*branches(node), *rest], env)
                case ast.For(target=target, iter=iterated):
                    from ungate.source.python.calls import element

                    names.unpack(self.ev, target, element(self.ev, iterated, self.frame(env)), env)
                    return self.block([*_unlooped(node.body), *node.orelse, *rest], env)
                case ast.While():
                    return self.block([*_unlooped(node.body), *node.orelse, *rest], env)
                case ast.Try() | ast.TryStar():
                    return self.block([*node.body, *node.orelse, *node.finalbody, *rest], env)
                case ast.With() | ast.AsyncWith():
                    return self.block([*node.body, *rest], env)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.define(node, env)
                case ast.Import() | ast.ImportFrom():
                    self.imported(node, env)
                case _:
                    self.simple(node, env)
        return None

    def fork(self, node: ast.If, rest: list[ast.stmt], env: dict[str, Value]) -> Value:
        from ungate.source.python.evaluate import settle_test

        test = settle_test(self.ev, node.test, self.frame(env))
        if test is FREE and (other := _other_makers(node.test)) is not None:
            test = other
        self.forks += 1
        if self.forks > 48:
            return FREE
        if not isinstance(test, ByArch | Each) and test is not FREE:
            return self.block([*(node.body if test else node.orelse), *rest], env)
        if not _leaves(node.body) and not _leaves(node.orelse):
            return self.block(rest, self.joined(test, node, env))
        one = self.block([*node.body, *rest], dict(env))
        other = self.block([*node.orelse, *rest], dict(env))
        if one is _RAISED:
            return other
        if other is _RAISED:
            return one
        return choose(test, one, other) if isinstance(test, ByArch | Each) else either_free(one, other)

    def joined(self, test: Value, node: ast.If, env: dict[str, Value]) -> dict[str, Value]:
        """The names after an ``if`` that neither returns nor raises in its branches."""
        one, other = dict(env), dict(env)
        self.block(node.body, one)
        self.block(node.orelse, other)
        for name in {*one, *other}:
            left, right = one.get(name, FREE), other.get(name, FREE)
            if left is right:
                continue
            if isinstance(left, Each) or isinstance(right, Each) or not isinstance(test, ByArch | Each):
                env[name] = either_free(left, right)  # a list of what is built for, on one way with more in it
            else:
                env[name] = choose(test, left, right)
        return env

    def define(self, node: ast.FunctionDef | ast.AsyncFunctionDef, env: dict[str, Value]) -> None:
        env[node.name] = FunctionValue(node, self.scope, node.name, self.scope.shift, closure=self.frame(env))

    def imported(self, node: ast.Import | ast.ImportFrom, env: dict[str, Value]) -> None:
        for alias in node.names:
            spelled = alias.asname or alias.name.split(".")[0]
            bindings = self.scope.lookup(spelled)
            if bindings:
                with self.ev.unfocused():  # what is read of it later may be what is looked for
                    env[spelled] = names.settled(self.ev, bindings, spelled, 1 << 30, self.depth)

    def simple(self, node: ast.stmt, env: dict[str, Value]) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self.ev.value(value, self.frame(env))
                for target in targets:
                    names.unpack(self.ev, target, found, env)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                names.unpack(self.ev, target, self.ev.value(value, self.frame(env)), env)
            case ast.AugAssign(target=ast.Name(id=spelled), op=op, value=value):
                from ungate.source.python.operators import binary

                env[spelled] = binary(op, env.get(spelled, FREE), self.ev.value(value, self.frame(env)))
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=spelled), attr="append"), args=[value])):
                env[spelled] = _grown(env.get(spelled, FREE), self.ev.value(value, self.frame(env)))
            case _:
                pass


def _grown(of: Value, item: Value) -> Value:
    """A list with one more item; one for each arch is what a loop over archs appends."""
    if isinstance(item, ByArch) and isinstance(of, list):
        return Each(item)
    return [*of, item] if isinstance(of, list) else of


_OTHER = re.compile(rf"_*is_(?:{'|'.join(OTHER_MAKERS)})(?:_available|_supported)?")


def _other_makers(test: ast.expr) -> bool | None:
    """False where a test asks for another maker's GPU, which none of the known architectures is; None for others."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            answer = _other_makers(operand)
            return None if answer is None else not answer
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) | ast.Name(id=name) | ast.Attribute(attr=name):
            return False if _OTHER.fullmatch(name) else None
        case _:
            return None


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a branch may return or raise."""
    for node in body:
        if isinstance(node, ast.Return | ast.Raise):
            return True
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, None)
            if isinstance(inner, list) and not isinstance(node, ast.FunctionDef | ast.ClassDef) and _leaves(inner):
                return True
    return False


def _unlooped(body: list[ast.stmt]) -> list[ast.stmt]:
    """A loop's body read once: what follows ``continue`` and ``break`` is not reached from there."""
    return [node for node in body if not isinstance(node, ast.Continue | ast.Break)]
