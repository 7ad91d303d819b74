"""Which shapes stand for a message size: one that is timed, and others that are only checked."""

from __future__ import annotations

from ungate.probe.records import Shape

__all__ = ["VECTOR", "shapes"]

VECTOR = 16
"""Bytes that a message is a multiple of: what a thread loads at once, and the least that the candidates take."""

_HIDDEN = 4096
_OTHERS = (1024, 5120)  # a narrower row, and one that is no power of two


def shapes(size: int, itemsize: int) -> tuple[Shape, ...]:
    """Rows of hidden states of ``size`` bytes, the timed shape first; the others hold as much or less."""
    elements = size // itemsize
    hidden = next((width for width in (_HIDDEN, 2048, 1024, 512) if elements % width == 0), elements)
    found = [Shape(elements // hidden, hidden)]
    for width in _OTHERS:
        if elements >= width:
            found.append(Shape(elements // width, width))
        elif (less := elements * 5 // 8 * itemsize // VECTOR * VECTOR // itemsize) > 0:
            found.append(Shape(1, less))
    return tuple(dict.fromkeys(found))
