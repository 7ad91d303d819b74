"""A boolean C++ expression in host code.

    if (sm == 120)                  ->   if (sm == 120 || sm == 121)
    if (version >= 90 && version < 110)   ->   if ((version >= 90 && version < 110) || version == 120)

The addition compares what the expression itself compares; an expression that compares nothing with a number has no
variable to test and is refused.
"""

from __future__ import annotations

import re

from ungate.model import Form, Sense
from ungate.patch.edits import Opening, Place, Replacement, Unopenable, opens
from ungate.patch.edits._cexpr import Comparison, Node, comparison, leaves, parse
from ungate.patch.edits._logic import Logic
from ungate.patch.edits._restriction import host_condition
from ungate.patch.edits._units import covered, spelled, unit_of

__all__ = ["open_host"]

_ARCH = re.compile(rb"sm|arch|capab|major|SM\d|getSM", re.IGNORECASE)


def _compared(place: Place, node: Node) -> dict[Node, Comparison]:
    found = {}
    for leaf in leaves(node):
        term = comparison(place.content[leaf.start : leaf.end])
        if term and unit_of((term.value,)) and b"minor" not in term.subject.lower():
            names = [name.encode() for name in place.gate.names]
            if any(name in term.subject for name in names) or _ARCH.search(term.subject):
                found[leaf] = term
    return found


@opens(Form.HOST_EXPRESSION)
def open_host(place: Place) -> Opening:
    """Open a host expression by comparing its own variable with the wanted archs."""
    node = parse(place.text, place.gate.span[0])
    compared = _compared(place, node)
    if not compared:
        raise Unopenable("it compares no variable with a number that is an architecture")
    subject = next(iter(compared.values())).subject
    unit = unit_of(term.value for term in compared.values() if term.subject == subject)
    if unit is None:
        raise Unopenable("it compares one variable with numbers of different kinds")
    tests = [subject + b" == %d" % value for value in spelled(place.missing, unit)]
    shut = place.gate.sense is Sense.REFUSE
    joined = b" || ".join(tests)
    if place.when:
        joined = (b"(" + joined + b")" if len(tests) > 1 else joined) + b" && " + host_condition(place)
        tests = [joined, b""]
    text = b"(" + joined + b")" if len(tests) > 1 or shut else joined
    if not shut and node.kind == "or" and not place.when:
        text = joined
    logic = Logic(place.content, text, lambda leaf: leaf in compared)
    made = logic.shut(node) if shut else logic.open(node)
    start, end = place.gate.span
    if _inside_conjunction(place.content, start, end):
        made = (Replacement(start, start, b"("), *made, Replacement(end, end, b")"))
    return Opening(made, covered(place.missing, unit))


def _inside_conjunction(content: bytes, start: int, end: int) -> bool:
    """Whether an operator that binds closer than ``||`` stands right beside the span."""
    before, after = content[max(0, start - 200) : start].rstrip(), content[end : end + 200].lstrip()
    return before.endswith((b"&&", b"!", b"==", b"!=")) or after.startswith((b"&&", b"==", b"!="))
