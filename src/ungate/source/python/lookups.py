"""Tables that are looked up by capability in one file and written in another, told from the text."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from ungate.source.python.capability import Capability, capability_number
from ungate.source.python.scopes import Scope, last
from ungate.source.python.values import Value

__all__ = ["aliased", "is_table", "looked_up", "written"]

_BEFORE = re.compile(rb"([A-Za-z_]\w{2,})(?:\.get\(|\[)\s*[\w.()\[\]]{0,60}$")
_AFTER = re.compile(
    rb"\w*(?:\(\w*\))?(?:\[0\]|\.major|\.to_int\(\))?\s+(?:not\s+)?in\s+(?:[\w.]+\.)?([A-Za-z_]\w{2,})(?![\w.(\[])"
)
_REACH = 140


def looked_up(data: bytes, marks: Sequence[int], start: int, end: int) -> Iterator[str]:
    """The names in ``data[start:end]`` in which a telling word (at ``marks``, in order) is looked up."""
    for index in range(bisect_left(marks, start), bisect_left(marks, end)):
        at = marks[index]
        found = _BEFORE.search(data, max(start, at - _REACH), at)
        if found is not None:
            yield found[1].decode()
        if (found := _AFTER.match(data, at, min(end, at + _REACH))) is not None:
            yield found[1].decode()


def written(data: bytes, name: str) -> bool:
    """Whether a table or list of that name is written in a text."""
    wanted = rb"\b" + re.escape(name.encode()) + rb"[ \t]*(?::[^=\n]*)?=[ \t]*(?:\w+\()?[\[({]"
    return re.search(wanted, data) is not None


def is_table(value: Value) -> bool:
    """Whether a value is a table or list all of whose keys are capabilities or majors."""
    keyed = isinstance(value, dict | list | tuple) and not isinstance(value, Capability)
    return keyed and bool(value) and all(_is_capability(key) for key in value)


def _is_capability(key: object) -> bool:
    if isinstance(key, int) and not isinstance(key, bool) and 5 <= key <= 13:
        return True
    return not isinstance(key, Capability) and capability_number(key) is not None


def aliased(node: ast.expr, scope: Scope) -> str:
    """What a local name of a table stands for: ``sizes = self.SIZES``; else nothing."""
    if not isinstance(node, ast.Name) or scope.kind != "function" or len(bound := scope.lookup(node.id)) != 1:
        return ""
    of = bound[0].node
    return last(of) if bound[0].kind == "assign" and isinstance(of, ast.Name | ast.Attribute) else ""
