"""What a name or an attribute comes to: through assignments, imports, classes and tables of probes."""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ungate.model import KNOWN_ARCHS
from ungate.source.python.capability import Capability, archs_of_name
from ungate.source.python.operators import choose, either_free
from ungate.source.python.overrides import on_cuda, overridden
from ungate.source.python.scopes import Binding, Scope, last
from ungate.source.python.seeds import (
    CAPABILITY,
    TARGETS,
    is_capability_name,
    is_target_set_name,
    named_archs,
    part_of_capability,
)
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
    is_answer,
    lift,
)
from ungate.source.reader import Unreadable

if TYPE_CHECKING:
    from ungate.source.python.evaluate import Evaluator, Frame

__all__ = ["attribute", "by_name", "class_member", "module_member", "name", "unpack"]

_END = 1 << 30


def _frame(scope: Scope, line: int, depth: int) -> Frame:
    from ungate.source.python.evaluate import Frame

    return Frame(scope, line, depth=depth + 1)


def _spoken(value: Value, spelled: str) -> Value:
    """Note the name under which an answer was read."""
    return ByArch(value.items, (spelled,), value.loose) if is_answer(value) else value


@functools.lru_cache(maxsize=1 << 16)
def by_name(spelled: str) -> Value:
    """What a variable whose value cannot be followed holds, going by its spelling."""
    if (part := part_of_capability(spelled)) is not None:
        return part
    if is_capability_name(spelled):
        return CAPABILITY
    if is_target_set_name(spelled):
        return TARGETS
    if (archs := named_archs(spelled)) is not None:
        return ByArch(tuple(arch in archs for arch in KNOWN_ARCHS), (spelled,))
    return FREE


def name(ev: Evaluator, node: Any, frame: Frame) -> Value:
    """An identifier."""
    spelled: str = node.id
    at: Frame | None = frame
    outermost = frame
    while at is not None:
        if at.env is not None and spelled in at.env:
            return _spoken(at.env[spelled], spelled)
        outermost, at = at, at.outer
    scope: Scope | None = outermost.scope if outermost.env is None else outermost.scope.parent
    value = _static(ev, scope, spelled, frame.line if outermost.env is None else _END, frame.depth)
    if value is FREE and named_archs(spelled) is not None:
        value = by_name(spelled)
    return _spoken(value, spelled)


def _static(ev: Evaluator, scope: Scope | None, spelled: str, line: int, depth: int) -> Value:
    start = scope
    while scope is not None:
        if scope.kind != "class" or scope is start:
            bindings = scope.lookup(spelled)
            if bindings and bindings[0].kind != "global":
                if scope.kind == "function":
                    return settled(ev, bindings, spelled, line, depth)
                # the statements of a module run in order; a function sees what stands at the end
                return _shared(ev, bindings, spelled, depth, line if scope is start else _END)
        scope = scope.parent
    if start is not None:
        found = ev.world.definitions(start.module.dotted, spelled)
        if found:
            return _shared(ev, found, spelled, depth)
    if hasattr(builtins, spelled):
        return ModuleValue(f"builtins.{spelled}")
    return by_name(spelled)


def _shared(ev: Evaluator, bindings: Sequence[Binding], spelled: str, depth: int, line: int = _END) -> Value:
    """A name of a module or class: where only names of interest are followed, others are left alone."""
    if not ev.worth(spelled) and not all(each.kind == "import" or _outside(ev, each) for each in bindings):
        return FREE
    with ev.unfocused():
        return settled(ev, bindings, spelled, line, depth)


def _outside(ev: Evaluator, binding: Binding) -> bool:
    """Whether a binding imports from a package that is not read: following it costs nothing."""
    return binding.kind == "from" and not ev.world.knows(
        ev.world.absolute(binding.scope.module, binding.dotted.partition(":")[0])
    )


def settled(ev: Evaluator, bindings: Sequence[Binding], spelled: str, line: int, depth: int) -> Value:
    """The value of a name with these bindings, seen from a line: the nearest before it, under its guards."""
    before = [each for each in bindings if each.line < line] or list(bindings)
    result: Value = None
    chosen: list[tuple[Binding, Value]] = []
    for each in reversed(before[-12:]):
        chosen.append((each, _bound(ev, each, spelled, depth)))
        if not each.guards:
            break
    for each, value in reversed(chosen):
        if result is None and each is chosen[-1][0]:
            result = value if not _constant(value) or not each.guards else _guarded(ev, each, value, _UNSET, depth)
        else:
            result = _guarded(ev, each, value, result, depth)
    # what is set on no way that was found is set before, or elsewhere
    return FREE if isinstance(result, ByArch) and result.names == _UNSET.names else result


def _constant(value: Value) -> bool:
    return value is None or isinstance(value, bool | int | str)


def _guarded(ev: Evaluator, binding: Binding, value: Value, otherwise: Value, depth: int) -> Value:
    from ungate.source.python.evaluate import settle_test

    if isinstance(value, FunctionValue | ClassValue):
        return otherwise if isinstance(otherwise, FunctionValue | ClassValue) and binding.guards else value
    named = isinstance(value, str) and isinstance(otherwise, ByArch) and not is_answer(otherwise)
    if not (value is None or isinstance(value, bool) or named):
        return value if value is not FREE else otherwise
    test: Value = FREE
    for guard in binding.guards:
        if isinstance(guard.test, ast.Constant):
            continue
        answer = settle_test(ev, guard.test, _frame(binding.scope, binding.line, depth))
        if isinstance(answer, ByArch):
            test = answer if guard.holds else lift(lambda item: not item, answer)
    if isinstance(otherwise, ByArch) and otherwise.names == _UNSET.names:
        if not isinstance(test, ByArch):
            return choose(test, value, FREE)
        items = [value if holds is True else item for holds, item in zip(test.items, otherwise.items, strict=True)]
        return ByArch(tuple(items), _UNSET.names if FOG in items else test.names)
    if otherwise is FREE and isinstance(test, ByArch):
        return FREE
    if any(isinstance(guard.test, ast.Constant) for guard in binding.guards):
        value = either_free(value, otherwise)  # in a handler: an exception has its say too
    return choose(test, value, otherwise)


_UNSET = ByArch((FOG,) * len(KNOWN_ARCHS), ("",))
"""A name on the ways on which no binding was found so far."""


def _bound(ev: Evaluator, binding: Binding, spelled: str, depth: int) -> Value:
    key = (id(binding), spelled)
    if key in ev.memo:
        return ev.memo[key]
    passing = (*key, ev.epoch)
    if ev.focus is not None and passing in ev.memo:
        return ev.memo[passing]
    if key in ev.busy or len(ev.busy) > 60:
        return FREE
    ev.busy.add(key)
    pruned = ev.pruned
    try:
        value = _bind_value(ev, binding, spelled, depth)
    finally:
        ev.busy.discard(key)
    ev.memo[key if ev.pruned == pruned else passing] = value
    return value


def _bind_value(ev: Evaluator, binding: Binding, spelled: str, depth: int) -> Value:
    from ungate.source.python import calls
    from ungate.source.python.parameters import parameter

    frame = _frame(binding.scope, binding.line, depth)
    node = binding.node
    match binding.kind:
        case "assign":
            return follow(ev.value(node, frame), binding.path)
        case "element":
            return follow(calls.element(ev, node, frame), binding.path)
        case "def":
            assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            return FunctionValue(node, binding.scope, node.name, binding.shift)
        case "class":
            assert isinstance(node, ast.ClassDef)
            scope = binding.body.scope if binding.body else binding.scope.inner(node, binding.shift)
            return ClassValue(node, scope, node.name)
        case "import":
            return ModuleValue(binding.dotted)
        case "from":
            base, _, member = binding.dotted.partition(":")
            if not ev.worth(member) and not ev.worth(spelled) and not _outside(ev, binding):
                return FREE
            with ev.unfocused():
                return module_member(ev, ev.world.absolute(binding.scope.module, base), member, depth)
        case "param":
            return parameter(ev, binding, spelled, depth)
        case "annotated":
            with ev.unfocused():
                of = ev.value(node, frame)
            return Instance(on_cuda(ev, of)) if isinstance(of, ClassValue) else FREE
        case _:
            return FREE


def follow(value: Value, path: tuple[int, ...]) -> Value:
    """A part of a value by the indices of an unpacking."""
    for index in path:
        if isinstance(value, list | tuple) and not isinstance(value, Capability):
            value = value[index] if index < len(value) else FREE
        elif isinstance(value, ByArch):
            value = lift(lambda item, at=index: item[at], value)
        else:
            return FREE
    return value


def unpack(ev: Evaluator, target: ast.expr, value: Value, env: dict[str, Value]) -> None:
    """Give the names of a target their parts of a value."""
    match target:
        case ast.Name(id=spelled):
            env[spelled] = value
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for index, element in enumerate(elements):
                if isinstance(element, ast.Starred):
                    break
                unpack(ev, element, follow(value, (index,)), env)
        case _:
            pass


def module_member(ev: Evaluator, dotted: str, member: str, depth: int = 0) -> Value:
    """A name in a module, or a reference to it where the module is not among those that are read."""
    if found := ev.world.definitions(dotted, member):
        return settled(ev, found, member, _END, depth)
    return ModuleValue(f"{dotted}.{member}")


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
            return _spoken(value, attr)
        case Instance() | ClassValue() if not ev.worth(attr):
            return FREE
        case Instance() | ClassValue():
            value = class_member(ev, of, attr, frame.depth)
            return _spoken(value if value is not FREE else _unknown(ev, attr), attr)
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
            return _spoken(_unknown(ev, attr, last(node.value)), attr)


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
        value = settled(ev, bindings, attr, _END, depth)
        if value is None and (assigned := _assigned(owner, attr)):
            value = settled(ev, assigned, attr, _END, depth)  # declared in the class, given by a method
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
            parent = ev.value(base, _frame(owner.scope.parent or owner.scope, _END, depth))
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
                value = settled(ev, (each,), spelled, _END, depth)
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
