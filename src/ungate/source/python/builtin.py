"""Builtin functions and the methods of plain values, as far as predicates use them."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from ungate.source.condition import All, Either, speaks
from ungate.source.python.capability import Capability, capability_number
from ungate.source.python.operators import settle, subscript, truth
from ungate.source.python.tables import UNKNOWN_KEY, look_up, nested
from ungate.source.python.values import FOG, FREE, ByArch, Each, Instance, ModuleValue, Value, is_answer, lift

if TYPE_CHECKING:
    from ungate.source.python.evaluate import Evaluator, Frame

__all__ = ["builtin", "method"]

_CUDA_NAME = re.compile(r"(?:sm_?|compute_?)?\d", re.IGNORECASE)
_LONGEST_RANGE = 2000
_TYPES = {"int": int, "str": str, "tuple": tuple, "list": list, "dict": dict, "bool": bool, "set": set}


def builtin(ev: Evaluator, name: str, arguments: list[Value], node: ast.Call, frame: Frame) -> Value:
    """A call of a builtin function."""
    first = arguments[0] if arguments else FREE
    match name:
        case "any" | "all":
            return _quantified(first, name == "any")
        case "bool":
            return first if is_answer(first) else settle(truth(first)) if isinstance(first, Each | ByArch) else FREE
        case "int" | "str" | "float":
            if isinstance(first, ByArch):
                make = {"int": int, "str": str, "float": float}[name]
                return lift(lambda item: item if isinstance(item, Capability) else make(item), first)
            return lift(_TYPES.get(name, float), first)
        case "tuple" | "list" | "set" | "frozenset" | "sorted" | "reversed":
            if isinstance(first, list | tuple | set | dict | range) and not isinstance(first, Capability):
                return list(first)
            return first if isinstance(first, Each | ByArch) else FREE
        case "range" if arguments and all(type(each) is int for each in arguments):
            numbers = range(*arguments[:3]) if 0 not in arguments[2:] else range(0)
            return numbers if len(numbers) <= _LONGEST_RANGE else FREE
        case "map":
            return arguments[1] if len(arguments) > 1 and isinstance(arguments[1], ByArch | Each) else FREE
        case "filter" | "enumerate" | "zip":
            return FREE
        case "min" | "max":
            return first.element if isinstance(first, Each) and isinstance(first.element, ByArch) else FREE
        case "divmod" if len(arguments) == 2:
            return lift(lambda a, b: divmod(a.number if isinstance(a, Capability) else a, b), *arguments)
        case "getattr" if len(arguments) >= 2 and isinstance(arguments[1], str):
            from ungate.source.python.members import attribute

            made = ast.Attribute(node.args[0], arguments[1], ast.Load())
            return attribute(ev, ast.copy_location(made, node), frame)
        case "isinstance" if len(arguments) == 2:
            return _is_instance(first, arguments[1])
        case _:
            return FREE


def _quantified(value: Value, some: bool) -> Value:
    if isinstance(value, Each):
        inner = truth(value.element)
        if some:
            tree = All((inner, value.when)) if speaks(inner) else value.when
        else:
            tree = inner
        return settle(tree, value.element.names if isinstance(value.element, ByArch) else ())
    if isinstance(value, list | tuple):
        terms = tuple(truth(item) for item in value)
        return settle(Either(terms) if some else All(terms))
    if isinstance(value, ByArch) and all(item is FOG or isinstance(item, list) for item in value.items):
        return lift(any if some else all, value)
    return FREE


def _is_instance(value: Value, kinds: Value) -> Value:
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    types = []
    for kind in wanted:
        if not isinstance(kind, ModuleValue) or kind.dotted.removeprefix("builtins.") not in _TYPES:
            return FREE
        types.append(_TYPES[kind.dotted.removeprefix("builtins.")])
    if value is FREE or value is FOG or isinstance(value, ByArch | Each | Instance | ModuleValue):
        return FREE
    return isinstance(value, tuple(types))


def method(of: Value, name: str, arguments: list[Value]) -> Value:
    """A method call on a constant, a collection or a per-arch value."""
    if isinstance(of, dict):
        if name == "get" and arguments:
            if isinstance(arguments[0], ByArch):
                return look_up(of, arguments[0], arguments[1] if len(arguments) > 1 else None)
            found = subscript(of, arguments[0])
            return found if found is not FREE else arguments[1] if len(arguments) > 1 else FREE
        return list(of) if name == "keys" and UNKNOWN_KEY not in of else FREE
    if isinstance(of, ByArch) and name == "get" and any(isinstance(item, dict) for item in of.items):
        default = arguments[1] if len(arguments) > 1 else None
        return nested(of, arguments[0], default) if arguments and not isinstance(default, ByArch) else FREE
    if isinstance(of, ByArch):
        found = lift(lambda item, *rest: _of_item(item, name, rest), of, *arguments)
        alike = isinstance(found, ByArch) and isinstance(found.items[0], bool) and len({*map(id, found.items)}) == 1
        return FREE if alike else found  # that it is a flag, or the name of an arch, is no question about which
    if isinstance(of, str) and name in ("startswith", "endswith", "format", "lower", "upper", "replace", "strip"):
        if name == "format" or any(isinstance(each, ByArch) for each in arguments):
            return lift(lambda text, *rest: getattr(text, name)(*rest), of, *arguments)
        return lift(lambda text, *rest: getattr(text, name)(*rest), of, *arguments)
    return FREE


def _of_item(item: Value, name: str, arguments: tuple[Any, ...]) -> Value:
    if not isinstance(item, Capability):
        if isinstance(item, str):
            return getattr(item, name)(*arguments)
        raise TypeError(name)
    match name:
        case "startswith":
            prefixes = arguments[0] if isinstance(arguments[0], tuple) else (arguments[0],)
            dotted = f"{item.major}.{item.minor}"
            forms = (*(f"{word}{item.number}" for word in ("sm_", "sm", "compute_", "")), dotted)
            if not any(_CUDA_NAME.match(prefix) for prefix in prefixes):
                raise TypeError(name)  # no number, or another vendor's: "gfx9"
            return any(form.startswith(prefix.rstrip("af")) for form in forms for prefix in prefixes)
        case "endswith" | "find" | "count" | "split":
            raise TypeError(name)
        case "is_family_of":
            # the CuTe DSL's Arch: the same major, the same or a later minor
            other = arguments[0].number if isinstance(arguments[0], Capability) else capability_number(arguments[0])
            if other is None:
                raise TypeError(name)
            return item.major == other // 10 and item.minor >= other % 10
        case _ if name.startswith("is"):
            raise TypeError(name)
        case _:
            # to_int(), as_version_str(), lower() …: another notation of the same capability
            return item
