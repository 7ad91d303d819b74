"""What a name comes to: through assignments, imports and definitions, under their guards."""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ungate.model import KNOWN_ARCHS
from ungate.source.python.capability import Capability
from ungate.source.python.operators import choose, either_free
from ungate.source.python.overrides import on_cuda
from ungate.source.python.scopes import Binding, Scope
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
    FunctionValue,
    Instance,
    ModuleValue,
    Value,
    is_answer,
    lift,
)

if TYPE_CHECKING:
    from ungate.source.python.evaluate import Evaluator, Frame

__all__ = ["END", "by_name", "follow", "frame_in", "module_member", "name", "settled", "spoken", "unpack"]

END = 1 << 30


def frame_in(scope: Scope, line: int, depth: int) -> Frame:
    """A frame one step further in than ``depth``."""
    from ungate.source.python.evaluate import Frame

    return Frame(scope, line, depth=depth + 1)


def spoken(value: Value, spelled: str) -> Value:
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
            return spoken(at.env[spelled], spelled)
        outermost, at = at, at.outer
    scope: Scope | None = outermost.scope if outermost.env is None else outermost.scope.parent
    value = _static(ev, scope, spelled, frame.line if outermost.env is None else END, frame.depth)
    if value is FREE and named_archs(spelled) is not None:
        value = by_name(spelled)
    return spoken(value, spelled)


def _static(ev: Evaluator, scope: Scope | None, spelled: str, line: int, depth: int) -> Value:
    start = scope
    while scope is not None:
        if scope.kind != "class" or scope is start:
            bindings = scope.lookup(spelled)
            if bindings and bindings[0].kind != "global":
                if scope.kind == "function":
                    return settled(ev, bindings, spelled, line, depth)
                # the statements of a module run in order; a function sees what stands at the end
                return _shared(ev, bindings, spelled, depth, line if scope is start else END)
        scope = scope.parent
    if start is not None:
        found = ev.world.definitions(start.module.dotted, spelled)
        if found:
            return _shared(ev, found, spelled, depth)
    if hasattr(builtins, spelled):
        return ModuleValue(f"builtins.{spelled}")
    return by_name(spelled)


def _shared(ev: Evaluator, bindings: Sequence[Binding], spelled: str, depth: int, line: int = END) -> Value:
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
    if any(each.kind == "filled" for each in before):
        told = _folded(ev, before, spelled, depth)
        if is_answer(told):
            return told  # whether anything is in it, which is what such a list is asked
        before = [each for each in before if each.kind != "filled"]
    return _folded(ev, before, spelled, depth)


def _folded(ev: Evaluator, before: Sequence[Binding], spelled: str, depth: int) -> Value:
    filled = any(each.kind == "filled" for each in before)
    result: Value = None
    chosen: list[tuple[Binding, Value]] = []
    for each in reversed(before[-12:]):
        value = _bound(ev, each, spelled, depth)
        chosen.append((each, False if filled and value == [] else value))
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
        answer = settle_test(ev, guard.test, frame_in(binding.scope, binding.line, depth))
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

    frame = frame_in(binding.scope, binding.line, depth)
    node = binding.node
    match binding.kind:
        case "assign":
            return follow(ev.value(node, frame), binding.path)
        case "element":
            return follow(calls.element(ev, node, frame), binding.path)
        case "filled":
            return True
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
        return settled(ev, found, member, END, depth)
    return ModuleValue(f"{dotted}.{member}")
