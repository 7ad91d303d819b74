"""What a parameter holds: the receiver of a method, what the callers in the same module pass, or what its name says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ungate.model import KNOWN_ARCHS
from ungate.source.python.scopes import Binding, Scope
from ungate.source.python.values import FOG, FREE, ByArch, ClassValue, Each, Instance, Value, is_answer
from ungate.source.reader import Unreadable

if TYPE_CHECKING:
    from ungate.source.python.evaluate import Evaluator
    from ungate.source.python.module import PythonModule

__all__ = ["is_number", "parameter"]


def parameter(ev: Evaluator, binding: Binding, spelled: str, depth: int) -> Value:
    """The value of a parameter, seen from inside its function."""
    from ungate.source.python.names import by_name

    scope = binding.scope
    function = scope.node
    arguments = getattr(function, "args", None)
    parent = scope.parent
    if not isinstance(arguments, ast.arguments) or parent is None:
        return FREE
    ordered = [*arguments.posonlyargs, *arguments.args]
    if parent.kind == "class" and ordered and ordered[0] is binding.node and spelled in ("self", "cls"):
        node = parent.node
        assert isinstance(node, ast.ClassDef)
        return Instance(ClassValue(node, parent, node.name))
    if is_number(scope, spelled):
        return _NUMBERS
    named = by_name(spelled)
    if named is FREE and not _telling(spelled):
        return FREE
    if is_answer(named) or named is FREE:
        passed = _passed(ev, binding, spelled, depth)
        if passed is not FREE:
            return passed
        if named is FREE and _FAMILY.fullmatch(spelled) is not None:
            return FOG  # whoever calls from another file says which architectures are meant
    return named


_NUMBERS = ByArch(tuple(str(arch) for arch in KNOWN_ARCHS))
"""The number of an architecture as text, as in ``f"{major}{minor}"``."""


def is_number(scope: Scope, spelled: str) -> bool:
    """Whether a parameter is such a text: its default is one, and the function names others (``backend="100"``)."""
    function = scope.node
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or not function.args.defaults:
        return False
    ordered = [*function.args.posonlyargs, *function.args.args]
    defaults = dict(zip((each.arg for each in reversed(ordered)), reversed(function.args.defaults), strict=False))
    match defaults.get(spelled):
        case ast.Constant(value=str() as given) if given in _NUMBERS.items:
            texts = {each.value for each in ast.walk(function) if isinstance(each, ast.Constant)}
            return len(texts.intersection(_NUMBERS.items)) > 2
        case _:
            return False


_FAMILY = re.compile(r"_*(?:is|on|use|has)_(?:hopper|blackwell|ampere)(?:_or_\w+)?")


def _telling(spelled: str) -> bool:
    words = spelled.lower()
    return any(word in words for word in ("sm1", "sm9", "sm8", "sm_", "blackwell", "hopper", "ampere", "arch", "capab"))


def _passed(ev: Evaluator, binding: Binding, spelled: str, depth: int) -> Value:
    """What callers in the same module pass for a parameter, where they agree on something about the arch."""
    scope = binding.scope
    function = scope.node
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or depth > 12:
        return FREE
    called = function.name
    if called == "__init__" and scope.parent is not None:
        called = getattr(scope.parent.node, "name", called)
    position = (
        [each.arg for each in (*function.args.posonlyargs, *function.args.args)].index(spelled)
        if spelled in [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        else -1
    )
    if scope.parent is not None and scope.parent.kind == "class":
        position -= 1
    found: list[ByArch] = []
    for number, (call, inside) in enumerate(_calls(scope.module, called)):
        if number > 8:
            break
        argument = next((each.value for each in call.keywords if each.arg == spelled), None)
        if argument is None and 0 <= position < len(call.args):
            argument = call.args[position]
        if argument is None:
            continue
        from ungate.source.python.evaluate import Frame

        value = ev.value(argument, Frame(inside, call.lineno + inside.shift, depth=depth + 2))
        if isinstance(value, Each) or (isinstance(value, dict) and value):
            return value
        if isinstance(value, ByArch):
            found.append(value)
    if found and all(each.items == found[0].items for each in found):
        return found[0]
    return FREE


def _calls(module: PythonModule, name: str) -> Iterator[tuple[ast.Call, Scope]]:
    """Calls of a name in a module, each with the scope it stands in."""
    wanted = f"{name}(".encode()
    for piece in module.pieces:
        if module.data.find(wanted, piece.start, piece.end) < 0:
            continue
        if piece.kind == "class":
            try:
                body = module.class_body(piece)
            except Unreadable:
                continue
            for member in body.members:
                if module.data.find(wanted, member.start, member.end) >= 0:
                    try:
                        unit = module.unit(member, (name.encode(),))
                    except Unreadable:
                        continue
                    yield from _within(unit.body, body.scope, unit.shift, name)
            continue
        try:
            unit = module.unit(piece, (name.encode(),))
        except Unreadable:
            continue
        yield from _within(unit.body, module.scope, unit.shift, name)


def _within(body: list[ast.stmt], scope: Scope, shift: int, name: str) -> Iterator[tuple[ast.Call, Scope]]:
    queue: list[tuple[ast.AST, Scope]] = [(each, scope) for each in body]
    while queue:
        node, inside = queue.pop()
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Name(id=spelled) | ast.Attribute(attr=spelled) if spelled == name:
                    yield node, inside
                case _:
                    pass
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = inside.inner(node, shift)
        queue.extend((child, inside) for child in ast.iter_child_nodes(node))
