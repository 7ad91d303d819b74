"""A mapping keyed by capability or architecture name.

    MAX_SIZES = {"9.0": {2: 64 * MiB}, "10.0": {2: 8 * MiB}}   ->   … "12.0": {2: 8 * MiB}

The new entry repeats the value of the nearest lower architecture in the table: which value is right for the target is
a matter of measurement, and the reason says so.
"""

from __future__ import annotations

import re

from ungate.model import Form, Sense
from ungate.patch.edits import Opening, Place, Replacement, Unopenable, opens
from ungate.patch.edits._display import Element, inserted, read
from ungate.patch.edits._names import named, renamed
from ungate.patch.edits._size_table import narrowed
from ungate.patch.edits._units import Unit, covered, spelled, unit_of

__all__ = ["open_table"]

_KEY = re.compile(rb"\s*(\"[^\"\n]*\"|'[^'\n]*'|\(\s*\d+\s*,\s*\d+\s*\)|\d+)\s*:\s*(?=\S)")
_PAIR = re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def _keys(elements: tuple[Element, ...]) -> dict[Element, str]:
    return {e: match[1].decode() for e in elements if (match := _KEY.match(e.text))}


def _archs(keys: dict[Element, str]) -> tuple[dict[Element, int], bool]:
    """The arch of each entry, and whether the keys are majors."""
    plain = {e: int(key) for e, key in keys.items() if key.isdigit()}
    if plain:
        unit = unit_of(plain.values())
        if unit is None:
            raise Unopenable("the keys of its table are not of one kind (majors or compute capabilities)")
        scale = spelled((100,), unit)[0]
        return {e: value * 100 // scale for e, value in plain.items()}, scale == 10
    pairs = {e: int(m[1]) * 10 + int(m[2]) for e, key in keys.items() if (m := _PAIR.fullmatch(key))}
    return pairs or {e: min(found) for e, key in keys.items() if len(found := named(key)) == 1}, False


def _key(model: str, arch: int, *, majors: bool) -> str:
    if model.isdigit():
        return str(arch // 10 if majors else arch * 10 if int(model) >= 500 else arch)
    return f"({arch // 10}, {arch % 10})" if _PAIR.fullmatch(model) else renamed(model, arch)


@opens(Form.TABLE)
def open_table(place: Place) -> Opening:
    """Add an entry for each wanted arch."""
    if place.gate.sense is Sense.REFUSE:
        raise Unopenable("its table lists what is refused")
    display = read(place.content, *place.gate.span)
    keys = _keys(display.elements)
    archs, majors = _archs(keys)
    if not archs:
        raise Unopenable("no key of its table names an architecture")
    texts = []
    for arch in sorted({a // 10 * 10 for a in place.missing} if majors else place.missing):
        lower = [e for e, other in archs.items() if other <= arch] or list(archs)
        model = max(lower, key=lambda e: archs[e])
        start = len(_KEY.match(model.text)[0])  # type: ignore[index]
        head = model.text[:start].replace(keys[model].encode(), _key(keys[model], arch, majors=majors).encode(), 1)
        value = model.text[start:]
        if place.entry:
            value = narrowed(place.content, place.gate.span[0], value, place.entry)
        texts.append(head + value)
    if not texts:
        raise Unopenable("its table has an entry for the target already")
    why = "the new entry repeats the value of the nearest lower architecture; measure before you rely on it"
    if place.entry:
        why = "the new entry holds what the policy measured, and no more"
    made = tuple(Replacement(r.start, r.end, r.new, why) for r in inserted(place.content, display, texts))
    return Opening(made, covered(place.missing, Unit.MAJOR) if majors else place.missing)
