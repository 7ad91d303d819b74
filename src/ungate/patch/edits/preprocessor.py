"""The condition of ``#if`` or ``#elif``.

    #if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
    #if (defined(__CUDA_ARCH__) && …) || (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 1200 || __CUDA_ARCH__ == 1210))

The host pass, in which ``__CUDA_ARCH__`` is not defined, sees what it saw before. Where the condition leads to the
refusal (``#error``, a trap), the archs are taken out of it with ``&& !(…)``.
"""

from __future__ import annotations

import re

from ungate.model import Form, Sense
from ungate.patch.edits import Opening, Place, opens
from ungate.patch.edits._cexpr import Node, leaves, parse
from ungate.patch.edits._logic import Logic

__all__ = ["admission", "open_directive"]

_ARCH = re.compile(rb"CUDA_ARCH|\bSM_?\d{2,3}|_SM\d{2,3}|__CUDACC_ARCH|ARCH_MMA")
_NOT_ARCH = re.compile(rb"CUDART_VERSION|CUDACC_VER|CUDA_VERSION|__has_include|ARCH_LIST__\b(?!.)")


def admission(archs: frozenset[int]) -> bytes:
    """C++ text that is true in the device passes of these archs and in no other pass."""
    tests = [b"__CUDA_ARCH__ == %d" % (arch * 10) for arch in sorted(archs)]
    return b"(defined(__CUDA_ARCH__) && (" + b" || ".join(tests) + b"))"


def _about_arch(place: Place) -> re.Pattern[bytes]:
    named = [re.escape(name.encode()) for name in place.gate.names]
    return re.compile(rb"\b(?:" + b"|".join(named) + rb")\b|" + _ARCH.pattern) if named else _ARCH


@opens(Form.PREPROCESSOR)
def open_directive(place: Place) -> Opening:
    """Open ``#if C`` or ``#elif C``, or close the refusing branch for the wanted archs."""
    node = parse(place.text, place.gate.span[0])
    pattern = _about_arch(place)

    def about_arch(leaf: Node) -> bool:
        text = place.content[leaf.start : leaf.end]
        return bool(pattern.search(text)) and not _NOT_ARCH.search(text)

    # a macro at one remove carries no arch in its name: then the whole condition is taken
    known = any(about_arch(leaf) for leaf in leaves(node))
    logic = Logic(place.content, admission(place.missing), about_arch if known else lambda leaf: True)
    shut = place.gate.sense is Sense.REFUSE
    return Opening(logic.shut(node) if shut else logic.open(node), place.missing)
