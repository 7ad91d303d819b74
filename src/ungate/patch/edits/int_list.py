"""A display of majors or compute capabilities.

    supported_major_versions=[9, 10]          ->  [9, 10, 12]
    @supported_compute_capability([100, 103]) ->  [100, 103, 120, 121]

A list of majors cannot tell sm_120 from sm_121: both are admitted. Where the list names what is refused, the archs are
taken out of it.
"""

from __future__ import annotations

import re

from ungate.model import Form, Sense
from ungate.patch.edits import Opening, Place, Unopenable, opens
from ungate.patch.edits._display import Display, inserted, read, removed
from ungate.patch.edits._units import covered, spelled, unit_of

__all__ = ["open_list", "widened"]

_NUMBER = re.compile(rb"\d+")


def _values(display: Display) -> dict[bytes, int]:
    found = {e.text: int(e.text) for e in display.elements if _NUMBER.fullmatch(e.text)}
    if not found:
        raise Unopenable("its list holds no plain number to go by")
    return found


def widened(place: Place, start: int, end: int, *, refuses: bool = False) -> Opening:
    """Add the wanted archs to (or take them out of) the display of integers in content[start:end]."""
    display = read(place.content, start, end)
    values = _values(display)
    unit = unit_of(values.values())
    if unit is None:
        raise Unopenable("the numbers in its list are not of one kind (majors or compute capabilities)")
    wanted = spelled(place.missing, unit)
    admits = covered(place.missing, unit)
    if refuses:
        drop = [e for e in display.elements if values.get(e.text) in wanted]
        if not drop:
            raise Unopenable("the list of what it refuses does not name the target")
        return Opening(removed(place.content, display, drop), admits)
    new = [b"%d" % value for value in wanted if value not in values.values()]
    if not new:
        raise Unopenable("its list names the target already")
    return Opening(inserted(place.content, display, new, lambda text: values.get(text) or float(text)), admits)


@opens(Form.INT_LIST)
def open_list(place: Place) -> Opening:
    """Open a list of integers; a list that refuses loses the archs."""
    return widened(place, *place.gate.span, refuses=place.gate.sense is Sense.REFUSE)
