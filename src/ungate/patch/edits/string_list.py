"""A display of names: "sm_90a", "9.0", "-gencode=arch=compute_90a,code=sm_90a".

    if backend_arch in ("sm_90a", "sm_100a"):   ->   ("sm_90a", "sm_100a", "sm_120a")

The new element is written like the one for the highest arch in the list, suffix included.
"""

from __future__ import annotations

from ungate.model import Form, Sense
from ungate.patch.edits import Opening, Place, Replacement, Unopenable, opens
from ungate.patch.edits._display import inserted, read, removed
from ungate.patch.edits._names import named, renamed

__all__ = ["open_names", "widened"]


def _single(place: Place) -> Opening:
    """The span is one string: other archs are appended where it is a list of its own ("9.0 10.0", "90;100")."""
    text = place.text.decode("utf-8", "surrogateescape")
    for separator in (";", ",", " "):
        parts = text.strip("\"'").split(separator)
        if len(parts) > 1 and all(len(named(part)) == 1 for part in parts):
            new = separator.join(renamed(parts[-1], arch) for arch in sorted(place.missing))
            at = place.gate.span[1] - (1 if text[-1:] in "\"'" else 0)
            return Opening((Replacement(at, at, (separator + new).encode()),), place.missing)
    raise Unopenable("its text names one architecture and is no list that could be longer")


@opens(Form.STRING_LIST)
def open_names(place: Place) -> Opening:
    """Open a list of architecture names; a list that refuses loses the archs."""
    if not place.text.lstrip()[:1] or place.text.lstrip()[:1] in b"\"'":
        return _single(place)
    return widened(place, *place.gate.span, refuses=place.gate.sense is Sense.REFUSE)


def widened(place: Place, start: int, end: int, *, refuses: bool = False) -> Opening:
    """Add the wanted archs to (or take them out of) the display of names in content[start:end]."""
    display = read(place.content, start, end)
    archs = {e: named(e.text.decode("utf-8", "surrogateescape")) for e in display.elements}
    if refuses:
        drop = [e for e, found in archs.items() if found and found <= place.missing]
        if not drop:
            raise Unopenable("the list of what it refuses does not name the target")
        return Opening(removed(place.content, display, drop), place.missing)
    single = {e: min(found) for e, found in archs.items() if len(found) == 1}
    if not single:
        raise Unopenable("no element of its list names one architecture")
    model = max(single, key=lambda e: single[e])
    new = [renamed(model.text.decode(), arch).encode() for arch in sorted(place.missing - set(single.values()))]
    if not new:
        raise Unopenable("its list names the target already")
    order = {e.text: float(arch) for e, arch in single.items()}
    return Opening(
        inserted(
            place.content, display, new, lambda text: order.get(text, float(max(named(text.decode()), default=0)))
        ),
        place.missing,
    )
