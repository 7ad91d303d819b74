"""A display of (major, minor) tuples.

if capability in [(9, 0), (10, 0)]:   ->   [(9, 0), (10, 0), (12, 0)]
"""

from __future__ import annotations

import re

from ungate.model import Form, Sense
from ungate.patch.edits import Opening, Place, Unopenable, opens
from ungate.patch.edits._display import inserted, read, removed

__all__ = ["open_tuples", "widened"]

_PAIR = re.compile(rb"\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def _arch(text: bytes) -> int | None:
    pair = _PAIR.fullmatch(text)
    return int(pair[1]) * 10 + int(pair[2]) if pair else None


def widened(place: Place, start: int, end: int, *, refuses: bool = False) -> Opening:
    """Add the wanted archs to (or take them out of) the display of pairs in content[start:end]."""
    display = read(place.content, start, end)
    known = {arch for e in display.elements if (arch := _arch(e.text)) is not None}
    if not known:
        raise Unopenable("its list holds no (major, minor) pair to go by")
    if refuses:
        drop = [e for e in display.elements if _arch(e.text) in place.missing]
        if not drop:
            raise Unopenable("the list of what it refuses does not name the target")
        return Opening(removed(place.content, display, drop), place.missing)
    new = [b"(%d, %d)" % divmod(arch, 10) for arch in sorted(place.missing - known)]
    if not new:
        raise Unopenable("its list names the target already")
    return Opening(inserted(place.content, display, new, lambda text: _arch(text) or 0), place.missing)


@opens(Form.TUPLE_LIST)
def open_tuples(place: Place) -> Opening:
    """Open a list of pairs; a list that refuses loses the archs."""
    return widened(place, *place.gate.span, refuses=place.gate.sense is Sense.REFUSE)
