"""The entry of a table of maximum message sizes, one a world size, kept to what was measured.

{2: 64 * MiB, 4: 32 * MiB, 8: 1 * MiB}   with four ranks and at most 2 MiB   ->   {4: 2 * MiB}
"""

from __future__ import annotations

import ast
import re

from ungate.patch.edits import Entry, Unopenable

__all__ = ["narrowed"]

_MIB = 1 << 20
_NAMED = {"KiB": 1 << 10, "MiB": _MIB, "GiB": 1 << 30, "KB": 1 << 10, "MB": _MIB, "GB": 1 << 30}
_SMALLEST = 1 << 10  # bytes; a smaller number without a unit is no message size in bytes
_TABLE = re.compile(rb"(\w+)\s*(?::[^=\n]*)?=\s*\Z")


def _number(node: ast.expr) -> float | None:
    """The value of numbers, products and names such as MiB; None for anything else."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return _NAMED.get(name)
        case ast.BinOp(left=left, op=ast.Mult() | ast.LShift() as op, right=right):
            a, b = _number(left), _number(right)
            if a is None or b is None:
                return None
            return a * b if isinstance(op, ast.Mult) else int(a) << int(b)
        case _:
            return None


def _in_megabytes(content: bytes, start: int) -> bool:
    name = _TABLE.search(content, max(0, start - 200), start)
    return name is not None and name[1].upper().endswith((b"_MB", b"_MIB"))


def narrowed(content: bytes, start: int, value: bytes, entry: Entry) -> bytes:
    """The text of the new entry's value; ``start`` is where the table begins, ``value`` the neighbour's value.

    Unopenable where the table is not keyed by world size, lacks the measured one, or states sizes in no known unit.
    """
    try:
        node = ast.parse(b"(" + value + b"\n)", mode="eval").body
    except (SyntaxError, ValueError):
        raise Unopenable("the entries of its table are no Python values") from None
    if not isinstance(node, ast.Dict):
        raise Unopenable("the entries of its table are not keyed by the number of ranks")
    sizes: dict[int, ast.expr] = {}
    for key, size in zip(node.keys, node.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, int)):
            raise Unopenable("the entries of its table are not keyed by the number of ranks")
        sizes[key.value] = size
    kept = {ranks: size for ranks, size in sizes.items() if not entry.world_sizes or ranks in entry.world_sizes}
    if not kept:
        ranks = ", ".join(map(str, sorted(entry.world_sizes)))
        raise Unopenable(f"its table has no size for {ranks} ranks to go by")
    megabytes = _in_megabytes(content, start)
    texts = (f"{ranks}: {_limited(size, entry.limit, megabytes=megabytes)}" for ranks, size in kept.items())
    return ("{" + ", ".join(texts) + "}").encode()


def _limited(size: ast.expr, limit: int | None, *, megabytes: bool) -> str:
    text = ast.unparse(size)
    if limit is None:
        return text
    number = _number(size)
    if number is None or (not megabytes and number < _SMALLEST):
        raise Unopenable(f"the unit of the size '{text}' in its table is not known")
    if number * (_MIB if megabytes else 1) <= limit:
        return text
    if megabytes:
        return f"{limit / _MIB:g}"
    return f"{limit // _MIB} * MiB" if limit % _MIB == 0 and "MiB" in text else str(limit)
