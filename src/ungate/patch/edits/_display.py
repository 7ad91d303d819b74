"""Inserting into, and taking out of, a list, tuple or set display without touching its formatting."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ungate.patch.edits import Replacement, Unopenable

__all__ = ["Display", "Element", "inserted", "read", "removed"]

_OPENING, _CLOSING = b"([{", b")]}"
_CALLED = re.compile(rb"[\w\])]\s*\Z")
_SKIP = re.compile(rb"#[^\n]*|//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Element:
    """One element: byte range in the file, and its text."""

    start: int
    end: int
    text: bytes


@dataclass(frozen=True, slots=True)
class Display:
    """The elements between the brackets at ``start`` and ``end - 1``."""

    start: int
    end: int
    elements: tuple[Element, ...]


def _blanked(text: bytes) -> bytes:
    """Comments and strings as spaces of the same length, so that commas and brackets in them do not count."""

    def spaces(match: re.Match[bytes]) -> bytes:
        found = match.group()
        quoted = found[:1] in (b'"', b"'")
        return b"_" * len(found) if quoted else re.sub(rb"[^\n]", b" ", found)

    return _SKIP.sub(spaces, text)


def read(content: bytes, start: int, end: int) -> Display:
    """The first bracketed display in content[start:end]; Unopenable where there is none."""
    blank = _blanked(content[start:end])
    # frozenset({9, 10}): the parentheses of a call are no display
    places = [i for i, c in enumerate(blank) if c in _OPENING and not (c in b"(" and _CALLED.search(blank[:i]))]
    if not places:
        raise Unopenable("its text holds no list, tuple or set")
    first = places[0]
    depth, begin, elements = 0, first + 1, []
    for i in range(first, len(blank)):
        c = blank[i]
        if c in _OPENING:
            depth += 1
        elif c in _CLOSING or (c in b"," and depth == 1):
            depth -= c in _CLOSING
            if depth == 0 or (c in b"," and depth == 1):
                if piece := blank[begin:i].strip():
                    at = start + begin + blank[begin:i].index(piece)
                    elements.append(Element(at, at + len(piece), content[at : at + len(piece)]))
                begin = i + 1
            if depth == 0:
                return Display(start + first, start + i + 1, tuple(elements))
    raise Unopenable("its list is not closed where the scan says it ends")


def _separator(content: bytes, display: Display) -> bytes:
    """What stands between two elements; comments between them are not repeated."""
    if len(display.elements) < 2:
        first = display.elements[0]
        lead = content[display.start + 1 : first.start]
        return b"," + lead if b"\n" in lead and not lead.strip() else b", "
    left, right = display.elements[-2:]
    between = content[left.end : right.start]
    blank = _blanked(between)
    if b"\n" in blank:
        return b",\n" + blank.rsplit(b"\n", 1)[1]
    return b"," + blank.split(b",", 1)[1]


def inserted(
    content: bytes, display: Display, texts: Sequence[bytes], order: Callable[[bytes], float] | None = None
) -> tuple[Replacement, ...]:
    """Replacements that add ``texts``, each before the first element that orders after it, else at the end."""
    if not display.elements:
        return (Replacement(display.start + 1, display.start + 1, b", ".join(texts)),)
    separator = _separator(content, display)
    before: dict[int, list[bytes]] = {}
    last: list[bytes] = []
    for text in texts:
        after = [e for e in display.elements if order and order(e.text) > order(text)]
        ordered = order and [order(e.text) for e in display.elements] == sorted(order(e.text) for e in display.elements)
        if after and ordered:
            before.setdefault(after[0].start, []).append(text)
        else:
            last.append(text)
    made = [Replacement(at, at, b"".join(text + separator for text in some)) for at, some in before.items()]
    if last:
        end = display.elements[-1].end
        # "(10,)" needs its comma no more
        tail = content[end : display.end - 1]
        single = len(display.elements) == 1 and tail.strip() == b"," and b"\n" not in tail
        made.append(Replacement(end, display.end - 1 if single else end, b"".join(separator + text for text in last)))
    return tuple(made)


def removed(content: bytes, display: Display, drop: Sequence[Element]) -> tuple[Replacement, ...]:
    """Replacements that take elements out, each with the comma that follows it (or, for the last, precedes it)."""
    kept = [e for e in display.elements if e not in drop]
    if not kept:
        brackets = content[display.start : display.start + 1], content[display.end - 1 : display.end]
        empty = b"set()" if brackets[0] == b"{" else b"".join(brackets)
        return (Replacement(display.start, display.end, empty),)
    made = []
    elements = display.elements
    for i, element in enumerate(elements):
        if element not in drop:
            continue
        if any(later in kept for later in elements[i + 1 :]):
            made.append(Replacement(element.start, elements[i + 1].start, b""))
        else:
            previous = elements[i - 1]
            made.append(Replacement(previous.end, element.end, b""))
    if len(kept) == 1 and content[display.start : display.start + 1] == b"(" and len(elements) > 1:
        made.append(Replacement(elements[-1].end, elements[-1].end, b","))
    return tuple(made)
