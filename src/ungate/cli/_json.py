"""Records as the text of an indented JSON document.

The encoder of the standard library leaves its C half as soon as it is to indent, and a scan of two current packages
has half a million values. This writes the same text in one pass, records included.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as quoted

from ungate.plain import plain

__all__ = ["indented"]


def indented(value: object, depth: int = 0) -> str:
    """The text of ``json.dumps(plain(value), indent=1)``; ``depth`` is how deep the value stands."""
    kind = type(value)
    if kind is str:
        return quoted(value)  # type: ignore[arg-type]
    if kind is int:
        return str(value)
    if kind is dict:
        if not value:
            return "{}"
        pad = "\n" + " " * (depth + 1)
        inside = [f"{quoted(str(key))}: {indented(item, depth + 1)}" for key, item in value.items()]  # type: ignore[attr-defined]
        return f"{{{pad}{f',{pad}'.join(inside)}{pad[:-1]}}}"
    if kind is list or kind is tuple:
        if not value:
            return "[]"
        pad = "\n" + " " * (depth + 1)
        inside = [indented(item, depth + 1) for item in value]  # type: ignore[attr-defined]
        return f"[{pad}{f',{pad}'.join(inside)}{pad[:-1]}]"
    simple = plain(value)
    if simple is value:
        return json.dumps(value)
    return indented(simple, depth)
