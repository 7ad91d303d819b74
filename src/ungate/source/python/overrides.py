"""Whether what a class says of itself about the architecture is for its subclasses to say.

A base class compares a device with ``cls.CUDA_MINIMUM_COMPUTE_CAPABILITY``; the classes derived from it set it. What
comes of the comparison depends on the class then, and its default decides for none of them.
"""

from __future__ import annotations

import re

from ungate.source.python.scopes import last
from ungate.source.python.values import ClassValue, Value
from ungate.source.reader import Unreadable

__all__ = ["overridden"]

_BOUND = re.compile(r"capab|compute_cap|cuda_arch|sm_version|(?:min|max)[a-z]*_(?:[a-z]+_)*(?:sm|cc|arch|major)", re.I)


def overridden(owner: ClassValue, attr: str, value: Value) -> bool:
    """Whether a plain attribute of a class is left open (None), or set otherwise by a class derived from it here."""
    if not (value is None or isinstance(value, int | tuple | str)) or _BOUND.search(attr) is None:
        return False
    if not owner.scope.lookup(attr):
        return False  # assigned by a method
    if value is None:
        return True
    module = owner.scope.module
    assigns = re.compile(rb"^[ \t]+" + attr.encode() + rb"[ \t]*(?::[^=\n]*)?=(?!=)", re.M)
    for piece in module.pieces:
        if piece.kind != "class" or piece.name == owner.name:
            continue
        if assigns.search(module.data, piece.start, piece.end) is None:
            continue
        try:
            body = module.class_body(piece)
        except Unreadable:
            continue
        if any(last(base) == owner.name for base in body.bases):
            return True
    return False
