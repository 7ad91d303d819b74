"""Whether what a class says of itself about the architecture is for its subclasses to say.

A base class compares a device with ``cls.CUDA_MINIMUM_COMPUTE_CAPABILITY``; the classes derived from it set it. What
comes of the comparison depends on the class then, and its default decides for none of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ungate.source.python.scopes import last
from ungate.source.python.values import ClassValue, Value
from ungate.source.reader import Unreadable

if TYPE_CHECKING:
    from ungate.source.python.evaluate import Evaluator
    from ungate.source.python.module import ClassBody, PythonModule

__all__ = ["on_cuda", "overridden"]

_BOUND = re.compile(r"capab|compute_cap|cuda_arch|sm_version|(?:min|max)[a-z]*_(?:[a-z]+_)*(?:sm|cc|arch|major)", re.I)

_BASE = re.compile(r"(?:^|_)Base|Base(?:$|_|[A-Z])|^Abstract|Mixin$|Interface$")
"""How a class says by its name that it is there to be derived from."""


def overridden(owner: ClassValue, attr: str, value: Value) -> bool:
    """Whether a plain attribute of a class is left open (None), or set otherwise by a class derived from it."""
    if not (value is None or isinstance(value, int | tuple | str)) or _BOUND.search(attr) is None:
        return False
    if not owner.scope.lookup(attr):
        return False  # assigned by a method
    if value is None:
        return True
    if _BASE.search(owner.name) is not None:
        return True  # the classes derived from it are in other files
    assigns = re.compile(rb"^[ \t]+" + attr.encode() + rb"[ \t]*(?::[^=\n]*)?=(?!=)", re.M)
    return _derived(owner.scope.module, owner.name, assigns) is not None


def _derived(module: PythonModule, base: str, holds: re.Pattern[bytes] | None = None) -> ClassBody | None:
    """The first class in a module that derives from one of that name, and whose text holds a pattern."""
    for piece in module.pieces:
        if piece.kind != "class" or piece.name == base:
            continue
        if holds is not None and holds.search(module.data, piece.start, piece.end) is None:
            continue
        try:
            body = module.class_body(piece)
        except Unreadable:
            continue
        if any(last(each) == base for each in body.bases):
            return body
    return None


def on_cuda(ev: Evaluator, declared: ClassValue) -> ClassValue:
    """What an object is on an NVIDIA GPU whose declared class has a class for each maker beside it.

    ``current_platform: Platform`` is an object of the class in ``platforms/cuda.py`` that derives from ``Platform``.
    """
    dotted = f"{declared.scope.module.dotted.rpartition('.')[0]}.cuda"
    if not ev.world.knows(dotted) or (module := ev.world.module(dotted)) is None:
        return declared
    body = _derived(module, declared.name)
    return declared if body is None else ClassValue(body.node, body.scope, body.node.name)
