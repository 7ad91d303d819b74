"""Tables keyed by capability: what is looked up in them, and what is not there.

``SIZES = {9: {…}, 10: {…}}`` serves two majors. ``SIZES.get(major)`` is a value for each arch, None for those that are
no keys, and the tests that follow (``is None``, ``not sizes``, ``world_size in sizes``) decide by it. A key that is not
known makes every answer for what is no key unknown.
"""

from __future__ import annotations

import ast
from typing import Any

from ungate.model import KNOWN_ARCHS
from ungate.source.condition import Condition, Free
from ungate.source.python.capability import Capability, NoCapability
from ungate.source.python.values import FOG, FREE, SOME, ByArch, Value, as_condition, is_answer

__all__ = ["UNKNOWN_KEY", "held", "identity", "keys", "look_up", "nested", "presence"]

UNKNOWN_KEY = FREE
"""Stands in a table for keys that are not known."""


def look_up(table: dict[Any, Value], index: ByArch, default: Value) -> Value:
    """``table.get(index, default)`` for each arch; FREE where the table is not keyed by capabilities."""
    missing = 0

    def at(arch: int) -> Value:
        nonlocal missing
        key = index.items[arch]
        if key is FOG or key is FREE:
            return FOG
        for each, item in table.items():
            if _is_key(each, key):
                return item.items[arch] if isinstance(item, ByArch) else item
        missing += 1
        if UNKNOWN_KEY in table:
            return FOG
        return default.items[arch] if isinstance(default, ByArch) else default

    items = tuple(at(arch) for arch in range(len(KNOWN_ARCHS)))
    if missing == len(items) or all(item is FOG for item in items):
        return FREE
    if all(item is FREE for item in items) and not missing:
        return FREE
    return ByArch(items, index.names)


def nested(of: ByArch, index: Value, default: Value) -> Value:
    """``of.get(index, default)`` where a table was looked up before; what is found under an unknown key is SOME."""

    def at(item: Value) -> Value:
        if not isinstance(item, dict):
            return FOG if item is FREE or item is FOG else default
        if isinstance(index, int | str | tuple) and UNKNOWN_KEY not in item:
            return item.get(index, default)
        return SOME if item else default

    if not all(item is FOG or item is FREE or item is None or isinstance(item, dict) for item in of.items):
        return FREE
    found = tuple(at(item) for item in of.items)
    return ByArch(found, of.names) if any(item is not FOG for item in found) else FREE


def keys(table: dict[Any, Value], index: ByArch, text: str = "") -> Condition:
    """That the index is a key, as ``table[index]`` needs it; free where the table is not keyed by capabilities."""
    found = look_up(dict.fromkeys(table, True), index, False)
    return presence(found, text) if isinstance(found, ByArch) else Free(text)


def _is_key(each: Any, key: Value) -> bool:
    if each is UNKNOWN_KEY:
        return False
    if not isinstance(key, Capability):
        return type(each) is type(key) and bool(each == key)
    try:
        one, other = key.beside(each)
    except NoCapability:
        return False
    return bool(one == other)


def _is_nothing(item: Value) -> bool:
    """Whether an item is what stands for "not served": None, False or an empty collection."""
    return item is None or item is False or (isinstance(item, list | tuple | dict | set | str) and not len(item))


def _served(value: ByArch) -> ByArch | None:
    """Whether something was found, where for some archs nothing is; else None."""
    sizes = SOME in value.items
    found = tuple(FOG if item is FOG else not (_is_nothing(item) or (sizes and item == 0)) for item in value.items)
    return ByArch(found, value.names) if False in found and True in found else None


def presence(value: ByArch, text: str = "") -> Condition:
    """That something was found; free where there is something, or nothing, for all."""
    found = _served(value)
    return Free(text) if found is None else as_condition(found, text)


def identity(op: ast.Is | ast.IsNot, left: Value, right: Value) -> Value:
    """``left is right`` for None, True and False."""
    if isinstance(left, bool) or left is None:
        left, right = right, left
    if not isinstance(left, ByArch) or not (right is None or isinstance(right, bool)):
        return FREE
    if isinstance(right, bool) and not is_answer(left):
        return FREE
    if right is None and len({item is None for item in left.items if item is not FOG}) < 2:
        return FREE  # there is something, or nothing, for all
    wanted = isinstance(op, ast.Is)
    return ByArch(tuple(FOG if item is FOG else (item is right) == wanted for item in left.items), left.names)


def held(op: ast.In | ast.NotIn, within: ByArch) -> Value:
    """``x in within`` for an x that is not about the arch: it is in nothing empty, and is taken to be in the others."""
    if not all(
        item is FOG or item is FREE or item is None or isinstance(item, list | tuple | dict | set)
        for item in within.items
    ):
        return FREE
    found = _served(within)
    if found is None:
        return FREE
    wanted = isinstance(op, ast.In)
    return ByArch(tuple(item if item is FOG else item == wanted for item in found.items), within.names)
