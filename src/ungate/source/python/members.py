"""What an attribute comes to: of a module, a class, an object, or an object that nobody knows."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from ungate.source.python.capability import Capability, archs_of_name
from ungate.source.python.names import END, by_name, frame_in, module_member, settled, spoken
from ungate.source.python.overrides import overridden
from ungate.source.python.scopes import Binding, last
from ungate.source.python.values import (
    FOG,
    FREE,
    ByArch,
    ClassValue,
    Each,
    FunctionValue,
    Instance,
    MethodValue,
    ModuleValue,
    Value,
    lift,
)
from ungate.source.reader import Unreadable

if TYPE_CHECKING:
    from ungate.source.python.evaluate import Evaluator, Frame

__all__ = ["attribute", "class_member"]


def attribute(ev: Evaluator, node: Any, frame: Frame) -> Value:
    """``value.attr``."""
    attr: str = node.attr
    if ev.worth(attr):
        with ev.unfocused():
            of = ev.value(node.value, frame)
    else:
        of = ev.value(node.value, frame)
    match of:
        case ModuleValue(dotted=dotted):
            if not ev.worth(attr) and ev.world.knows(dotted):
                return FREE
            with ev.unfocused():
                value = module_member(ev, dotted, attr, frame.depth)
            if isinstance(value, ModuleValue) and not ev.world.knows(value.dotted):
                return _external(ev, value, attr)
            return spoken(value, attr)
        case Instance() | ClassValue() if not ev.worth(attr):
            return FREE
        case Instance() | ClassValue():
            value = class_member(ev, of, attr, frame.depth)
            return spoken(value if value is not FREE else _unknown(ev, attr), attr)
        case ByArch(items=items):
            if any(isinstance(item, Capability) for item in items):
                if archs_of_name(attr):
                    return attr  # of a class that is named like a capability
                if attr in ("major", "minor", "number"):
                    return lift(lambda item: getattr(item, attr), of)
                return MethodValue(of, attr)
            return MethodValue(of, attr)
        case str() | list() | dict() | tuple():
            return MethodValue(of, attr)
        case Each():
            return FREE
        case _:
            return spoken(_unknown(ev, attr, last(node.value)), attr)


def _external(ev: Evaluator, value: ModuleValue, attr: str) -> Value:
    if value.dotted.endswith("cute.arch"):  # a module: wrappers of instructions
        return value
    if (archs := archs_of_name(attr)) is not None and len(archs):
        return attr
    found = _unknown(ev, attr)
    return found if found is not FREE and not isinstance(found, FunctionValue) else value


def _unknown(ev: Evaluator, attr: str, receiver: str = "") -> Value:
    """An attribute of an object that is not known: by the definitions of that name, then by its spelling."""
    if attr in ev.attributes:
        return ev.attributes[attr]
    if archs_of_name(attr):
        return attr
    if attr == "arch" and receiver == "cute":
        return FREE
    if attr in ("major", "minor"):
        words = receiver.lower()
        if not any(word in words for word in ("prop", "cap", "arch", "cc", "sm", "device")):
            return FREE
    return by_name(attr)


def class_member(ev: Evaluator, of: Instance | ClassValue, attr: str, depth: int = 0, seen: int = 0) -> Value:
    """An attribute of an object or class: methods, properties, class attributes and ``self.attr = …``."""
    owner = of.of if isinstance(of, Instance) else of
    if isinstance(of, Instance) and attr in of.fields:
        return of.fields[attr]
    key = ("member", id(owner.scope), attr, isinstance(of, Instance))
    if key in ev.memo and not (isinstance(of, Instance) and of.fields):
        return ev.memo[key]
    if key in ev.busy:
        return FREE  # set under a test of itself
    ev.busy.add(key)
    try:
        with ev.unfocused():
            value = _member(ev, of, owner, attr, depth, seen)
    finally:
        ev.busy.discard(key)
    if not (isinstance(of, Instance) and of.fields) and not ev.busy:
        ev.memo[key] = value
    return value


def _member(ev: Evaluator, of: Instance | ClassValue, owner: ClassValue, attr: str, depth: int, seen: int) -> Value:
    bindings = list(owner.scope.lookup(attr)) or _assigned(owner, attr)
    if bindings:
        value = settled(ev, bindings, attr, END, depth)
        if value is None and (assigned := _assigned(owner, attr)):
            value = settled(ev, assigned, attr, END, depth)  # declared in the class, given by a method
        if isinstance(value, FunctionValue):
            bound = FunctionValue(value.node, value.scope, value.name, value.shift, of)
            decorators = getattr(value.node, "decorator_list", ())
            if any(last(each) in ("property", "cached_property") for each in decorators):
                from ungate.source.python import calls

                return calls.interpret(ev, bound, (), {}, depth)
            return bound
        return FOG if isinstance(of, Instance) and overridden(owner, attr, value) else value
    if attr not in ("__getattr__", "__getattribute__") and not attr.startswith("__"):
        value = probe(ev, owner, attr, depth)
        if value is not FREE:
            return value
    if seen < 6:
        for base in owner.scope.owner.bases if owner.scope.owner is not None else owner.node.bases:
            parent = ev.value(base, frame_in(owner.scope.parent or owner.scope, END, depth))
            if isinstance(parent, ClassValue) and parent.node is not owner.node:
                again = Instance(parent, of.fields) if isinstance(of, Instance) else parent
                value = class_member(ev, again, attr, depth, seen + 1)
                if value is not FREE:
                    return value
    return FREE


def probe(ev: Evaluator, owner: ClassValue, attr: str, depth: int) -> Value:
    """An attribute that ``__getattr__`` answers from a table of function names in the same module."""
    from ungate.source.python import calls

    getter = next((each for each in owner.scope.lookup("__getattr__") if each.kind == "def"), None)
    module = owner.scope.module
    if getter is None:
        return FREE
    spelled = f'"{attr}"'.encode()
    for piece in module.pieces:
        if piece.kind != "other" or module.data.find(spelled, piece.start, piece.end) < 0:
            continue
        for table, bindings in module.names_of(piece, module.scope).items():
            for each in bindings:
                if not isinstance(each.node, ast.Dict):
                    continue
                for key, item in zip(each.node.keys, each.node.values, strict=True):
                    match key, item:
                        case ast.Constant(value=str() as word), ast.Constant(value=str() as target) if word == attr:
                            value = _probed(ev, owner, getter, target, depth)
                            if isinstance(value, FunctionValue) or type(value).__name__ == "PartialValue":
                                value = calls.apply(ev, value, [], {}, target, depth + 1)
                            if value is not FREE:
                                return value
                        case _:
                            pass
            del table
    return FREE


def _probed(ev: Evaluator, owner: ClassValue, getter: Binding, target: str, depth: int) -> Value:
    """The function of that name in the modules that ``__getattr__`` imports, or in its own module."""
    inner = owner.scope.inner(getter.node, getter.shift)
    for spelled, bindings in inner.bindings.items():
        for each in bindings:
            if each.kind in ("import", "from"):
                value = settled(ev, (each,), spelled, END, depth)
                if isinstance(value, ModuleValue):
                    found = module_member(ev, value.dotted, target, depth)
                    if not isinstance(found, ModuleValue):
                        return found
    found = module_member(ev, owner.scope.module.dotted, target, depth)
    return FREE if isinstance(found, ModuleValue) else found


def _assigned(owner: ClassValue, attr: str) -> list[Binding]:
    """The places where methods of a class assign ``self.attr``."""
    key = f"self.{attr}"
    found: list[Binding] = []
    scope = owner.scope
    module = scope.module
    if scope.owner is not None and scope.owner.members:
        wanted = key.encode()
        for piece in scope.owner.members:
            if piece.kind == "def" and _may_assign(module.data, wanted, piece.start, piece.end):
                try:
                    unit = module.unit(piece)
                except Unreadable:
                    continue
                found.extend(scope.inner(unit.body[0], unit.shift).bindings.get(key, ()))
        return found
    for node in owner.node.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.extend(scope.inner(node, scope.shift).bindings.get(key, ()))
    return found


def _may_assign(data: bytes, wanted: bytes, start: int, end: int) -> bool:
    """Whether an attribute can be assigned in a text: what follows it on its line is no call and no comparison."""
    at = data.find(wanted, start, end)
    while at >= 0:
        after = at + len(wanted)
        if _ASSIGNED.match(data, after, end) is not None or data[data.rfind(b"\n", 0, at) : at].rstrip().endswith(
            (b" as", b"for", b"(", b",")
        ):
            return True
        at = data.find(wanted, after, end)
    return False


_ASSIGNED = re.compile(rb"\s*(?::[^\n]*|[-+*/|&@%^]{0,2}=(?!=)|[,)][^\n]*=(?!=)|[,)]?\s*\\?\n|[,)]? in\b)")
