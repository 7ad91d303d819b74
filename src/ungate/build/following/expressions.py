"""What an expression comes to, and what a call of a function or a class returns."""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ungate.build.following.values import Class, Dotted, Foreign, Function, Record, Return, Unknown, attribute
from ungate.plain import counted

if TYPE_CHECKING:
    from ungate.build.following.text import File

__all__ = ["ERRORS", "Expressions"]

ERRORS = (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError)
"""What working out an expression with values that do not fit can raise."""

_DEPTH = 60
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitOr: operator.or_, ast.BitAnd: operator.and_,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
    ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip


class Expressions(ABC):
    """The names of one call, and the expressions that are worked out with them."""

    def __init__(self, file: File, names: dict[str, Any], depth: int = 0) -> None:
        self.file, self.names, self.depth = file, names, depth
        self.globals: set[str] = set()

    @abstractmethod
    def run(self, body: Sequence[ast.stmt]) -> None:
        """Work out statements in order; :class:`Return` where one returns."""

    @abstractmethod
    def assign(self, target: ast.expr, value: Any) -> None:
        """Give a target a value."""

    def value(self, node: ast.expr) -> Any:
        """What an expression comes to."""
        try:
            return self._value(node)
        except ERRORS as error:
            raise Unknown(f"'{ast.unparse(node)}' in {self.file.path.name}:{node.lineno}: {error}") from None

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.names[name] if name in self.names else self.file.name(name)
            case ast.Attribute(value=owner, attr=name):
                return self._attribute(self.value(owner), name)
            case ast.Tuple(elts=items):
                return tuple(self._items(items))
            case ast.List(elts=items):
                return self._items(items)
            case ast.Set(elts=items):
                return set(self._items(items))
            case ast.Dict(keys=keys, values=values):
                return {self.value(key): self.value(each) for key, each in zip(keys, values, strict=True) if key}
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.value(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand)
            case ast.BoolOp(op=op, values=values):
                return self._either(values, until=isinstance(op, ast.Or))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compared(self.value(left), ops, others)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.value(test) else orelse)
            case ast.JoinedStr(values=parts):
                return "".join(self._shown(part) for part in parts)
            case ast.Subscript(value=owner, slice=ast.Slice(lower=lower, upper=upper)):
                return self.value(owner)[slice(*(self.value(end) if end else None for end in (lower, upper)))]
            case ast.Subscript(value=owner, slice=key):
                return self.value(owner)[self.value(key)]
            case ast.ListComp(elt=element, generators=[each]) | ast.GeneratorExp(elt=element, generators=[each]):
                return self._each(element, each)
            case ast.SetComp(elt=element, generators=[each]):
                return set(self._each(element, each))
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name)), *default]):
                return self._asked(self.value(owner), name, default)
            case ast.Call(func=function):
                return self.called(self.value(function), *self.arguments(node))
            case ast.NamedExpr(target=target, value=value):
                self.assign(target, given := self.value(value))
                return given
            case _:
                raise Unknown(f"'{ast.unparse(node)}' in {self.file.path.name}:{node.lineno} is not followed")

    def _asked(self, owner: Any, name: str, default: Sequence[ast.expr]) -> Any:
        """``getattr``: the default only where it is certain that there is no such attribute."""
        if isinstance(owner, Record) and default and name not in owner.values and owner.kind.member(name) is None:
            return self.value(default[0])
        return self._attribute(owner, name)

    def arguments(self, call: ast.Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What a call is given, by position and by name."""
        named: dict[str, Any] = {}
        for keyword in call.keywords:
            named |= {keyword.arg: self.value(keyword.value)} if keyword.arg else self.value(keyword.value)
        return tuple(self._items(call.args)), named

    def _items(self, nodes: Sequence[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for node in nodes:
            found += self.value(node.value) if isinstance(node, ast.Starred) else [self.value(node)]
        return found

    def _each(self, element: ast.expr, each: ast.comprehension) -> list[Any]:
        found, inner = [], type(self)(self.file, dict(self.names), self.depth)
        for item in self.value(each.iter):
            inner.assign(each.target, item)
            if all(inner.value(test) for test in each.ifs):
                found.append(inner.value(element))
        return found

    def _either(self, nodes: Sequence[ast.expr], until: bool) -> Any:
        *first, last = nodes
        for node in first:
            value = self.value(node)
            if bool(value) is until:
                return value
        return self.value(last)

    def _compared(self, left: Any, ops: Sequence[ast.cmpop], others: Sequence[ast.expr]) -> bool:
        for op, node in zip(ops, others, strict=True):
            right = self.value(node)
            if isinstance(op, ast.Is | ast.IsNot):
                for side in (left, right):
                    if isinstance(side, Dotted) and not side.settled:
                        raise Unknown(f"what {side.name} is is not known here")
            if not _COMPARED[type(op)](left, right):
                return False
            left = right
        return True

    def binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        """Two values joined by an operator."""
        for side in (left, right):
            if isinstance(side, Dotted) and not side.settled:
                return side  # what is made of something unknown is unknown
        if type(op) not in _BINARY:
            raise Unknown(f"the operator {type(op).__name__} is not followed")
        return _BINARY[type(op)](left, right)

    def _shown(self, part: ast.expr) -> str:
        if isinstance(part, ast.FormattedValue):
            if part.format_spec is not None or part.conversion not in {-1, ord("s")}:
                raise Unknown(f"the format of '{ast.unparse(part)}' is not followed")
            return self._text(self.value(part.value))
        return str(self.value(part))

    def _text(self, value: Any) -> str:
        if isinstance(value, Record):
            return str(self.called(self._attribute(value, "__str__"), (), {}))
        if isinstance(value, Function | Class | Foreign) or (isinstance(value, Dotted) and not value.settled):
            raise Unknown("the text of something that is not followed is not known")
        return str(value)

    def _attribute(self, owner: Any, name: str) -> Any:
        match owner:
            case Dotted(name=dotted):
                return self.file.text.named(f"{dotted}.{name}")
            case Foreign(look=look):
                return look(name)
            case Record(values=values) if name in values:
                return values[name]
            case Record(kind=kind) | (Class() as kind):
                return self._member(owner, kind, name)
            case _:
                return attribute(owner, name)

    def _member(self, owner: Record | Class, kind: Class, name: str) -> Any:
        match kind.member(name):
            case ast.FunctionDef(decorator_list=marks) as node:
                marked = {ast.unparse(mark).rpartition(".")[2] for mark in marks}
                function = Function(kind.file, node, None if "staticmethod" in marked else owner)
                cached = marked & {"property", "cached_property"}
                return self.called(function, (), {}) if cached else function
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                return type(self)(kind.file, {}).value(value)
            case _ if list_base := _base(kind):
                raise Unknown(f"'{name}' is not in {kind.node.name}, and its base {list_base} is not followed")
            case _:
                raise Unknown(f"{kind.node.name} has no '{name}'")

    def called(self, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """What a call returns."""
        match function:
            case Function(file=file, node=node, bound=bound, around=around):
                if self.depth > _DEPTH:
                    raise Unknown(f"the calls of {node.name} are too deep to follow")
                given = (bound, *args) if isinstance(bound, Record | Class) else args
                frame = type(self)(file, dict(around), self.depth + 1)
                frame.names |= frame.bound(node, given, named)
                try:
                    frame.run(node.body)
                except Return as answer:
                    return answer.value
                return None
            case Class() as kind:
                return self._made(kind, args, named)
            case Dotted(name=name):
                raise Unknown(f"what {name} gives is not known here")
            case _ if callable(function):
                if function is str and args:
                    return self._text(args[0])
                return function(*args, **named)
            case _:
                raise Unknown(f"a {type(function).__name__} is called")

    def _made(self, kind: Class, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        if kind.member("__init__"):
            made = Record(kind)
            self.called(self._attribute(made, "__init__"), args, named)
            return made
        if kind.fields:
            made = Record(kind, {})
            for name in kind.fields:
                if (node := kind.member(name)) and isinstance(node, ast.AnnAssign) and node.value:
                    made.values[name] = type(self)(kind.file, {}).value(node.value)
            made.values |= dict(zip(kind.fields, args, strict=False)) | named
            return made
        if _base(kind) == "list" and kind.member("__str__"):
            made = Record(kind)
            made.values["__items__"] = list(args[0]) if args else []
            return _Listed(made.values["__items__"], self, kind)
        raise Unknown(f"objects of {kind.node.name} are not followed")

    def bound(self, node: ast.FunctionDef, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """The parameters of a call, defaults included."""
        spec, left = node.args, dict(named)
        ordered = [*spec.posonlyargs, *spec.args]
        found: dict[str, Any] = dict(zip((each.arg for each in ordered), args, strict=False))
        if len(args) > len(ordered) and not spec.vararg:
            raise Unknown(f"{node.name} is called with {counted(len(args), 'value')} and takes {len(ordered)}")
        if spec.vararg:
            found[spec.vararg.arg] = tuple(args[len(ordered) :])
        defaults = dict(
            zip((each.arg for each in ordered[len(ordered) - len(spec.defaults) :]), spec.defaults, strict=True)
        )
        defaults |= {each.arg: node for each, node in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if node}
        for each in (*ordered, *spec.kwonlyargs):
            if each.arg in left:
                found[each.arg] = left.pop(each.arg)
            elif each.arg not in found and each.arg in defaults:
                found[each.arg] = self.value(defaults[each.arg])
            elif each.arg not in found:
                raise Unknown(f"{node.name} needs a value for '{each.arg}'")
        if spec.kwarg:
            found[spec.kwarg.arg] = left
        elif left:
            raise Unknown(f"{node.name} takes no '{next(iter(left))}'")
        return found


class _Listed(list[Any]):
    """A list whose class writes itself in its own way."""

    def __init__(self, items: list[Any], frame: Expressions, kind: Class) -> None:
        super().__init__(items)
        self._frame, self._kind = frame, kind

    def __str__(self) -> str:
        node = self._kind.member("__str__")
        assert isinstance(node, ast.FunctionDef)
        frame = type(self._frame)(self._kind.file, {node.args.args[0].arg: list(self)}, self._frame.depth + 1)
        try:
            frame.run(node.body)
        except Return as answer:
            return str(answer.value)
        return ""


def _base(kind: Class) -> str:
    return ", ".join(ast.unparse(base).partition("[")[0] for base in kind.node.bases)
