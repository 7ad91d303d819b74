"""A long function without the statements that have nothing to do with the architecture.

Kernels written in Python run to thousands of lines, of which a handful ask for the architecture; parsing and walking
the rest was most of the time of a scan. Here the statements of a function are told apart by their indentation, and
those that neither speak of the architecture, nor follow from one that does, nor give a value to one that does are
replaced by ``pass``. What is left keeps its lines and columns. Where the cut is wrong the text does not parse, and the
caller parses the function as it stands.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from ungate.source.python.outline import quoted
from ungate.source.python.tokens import keyed, telling, words

__all__ = ["thinned"]

_LINE = re.compile(rb"^[ \t]*(?=[^\s#)\]}])", re.M)
_HEAD = re.compile(
    rb"(?:if|elif|else|for|while|with|try|except|finally|def|class|async|match|case)\b"
    rb"(?:[^\n]*?(:)[ \t]*(?:#[^\n]*)?\n)?"
)
_CLOSES = re.compile(rb":[ \t]*(?:#[^\n]*)?$", re.M)
_STAYS = re.compile(rb"return\b|raise\b|pass\b|continue\b|break\b|global\b|nonlocal\b|yield\b|@|import\b|from\b")
_SOFT = re.compile(rb"(?:match|case)\b[^\n]*[^\n:]\n")
_TARGETS = re.compile(rb"[ \t]*\(?([A-Za-z_*][\w.,\s*]*?)\)?\s*(?::[^=\n]+)?[-+*/|&@%^<>]*=(?!=)")
_LOOP = re.compile(rb"[ \t]*(?:async[ \t]+)?for\b([^:]*?)\bin\b")
_NAMED = re.compile(rb"\bas[ \t]+([\w.]+)|(\w+)[ \t]*:=")
_FIELD = re.compile(rb"self\.\w+[ \t]*(?::[^=\n]+)?=(?!=)")
_CONSTANT = re.compile(rb"[ \t]*[\w.]+[ \t]*(?::[^=\n]+)?=[ \t]*(?:True|False|None)\b")
_LISTS = re.compile(
    r"(?:^|_)(?:majors?|capabilit(?:y|ies)|archs?|architectures|ccs?|sms?|sm_versions?|major_versions?)"
    r"(?:_|$)|(?:sm|compute)_?[0-9]{2,3}[af]?$|nvcc_|(?:device|gpu)_?(?:name|properties)|^requires?_",
    re.I,
)
"""Names under which the patterns look for lists, tables and flags beside those that are telling."""
_CALL = re.compile(
    rb"(?<![\w.])(?!(?:dict|list|tuple|set|frozenset|range|int|str|bool|min|max|any|all|not|in|and|or|if|else)\b)[\w.]+\("
)
"""A call of something whose value is not known: where it has to do with the architecture its name says so."""
_OBJECTS = frozenset({b"self", b"cls"})


@functools.lru_cache(maxsize=1 << 17)
def _listed(word: bytes) -> bool:
    spelled = word.decode("ascii")
    return telling(spelled) or _LISTS.search(spelled) is not None


@dataclass(slots=True)
class _Statement:
    """Bytes [start, end) from its first letter to the line of the next one; ``head`` opens a block.

    ``under`` is the index of the head it stands under, -1 for none; of an ``else`` the head that it belongs to.
    """

    start: int
    end: int
    indent: int
    head: bool
    stays: bool
    under: int
    kept: bool = False


def _statements(data: bytes, start: int, end: int) -> list[_Statement]:
    found: list[_Statement] = []
    strings = quoted(data, start, end)
    hold = next(strings, (end, end))
    floor = start  # what lies before belongs to the statement before
    simple = -1  # the indentation of the last statement where it opens no block
    opened: list[int] = []
    for match in _LINE.finditer(data, start, end):
        at, first = match.span()
        if first < floor:
            continue
        indent = first - at
        if 0 <= simple < indent:
            continue  # goes on from the line before
        while hold[1] <= first and hold[0] < end:
            hold = next(strings, (end, end))
        if hold[0] < first < hold[1]:
            continue
        if found:
            found[-1].end = at
        head = _HEAD.match(data, first, end)
        opens = head is not None and not _SOFT.match(data, first, end)
        under = -1
        while opened and found[opened[-1]].indent >= indent:
            under = opened.pop()
        if (
            under < 0
            or not opens
            or found[under].indent != indent
            or not data.startswith((b"el", b"exc", b"fin"), first)
        ):
            under = opened[-1] if opened else -1
        if opens and head is not None:
            floor = head.end()
            if not head.group(1):
                closing = _CLOSES.search(data, first, end)
                floor = closing.end() if closing is not None else end
            opened.append(len(found))
        simple = -1 if opens else indent
        found.append(_Statement(first, end, indent, opens, opens or _STAYS.match(data, first) is not None, under))
    return found


def _binds(data: bytes, each: _Statement) -> set[bytes]:
    """The names that a statement gives a value."""
    bound: set[bytes] = set()
    if each.head:
        if (loop := _LOOP.match(data, each.start, each.end)) is not None:
            bound.update(words(loop.group(1)))
    elif (targets := _TARGETS.match(data, each.start, each.end)) is not None:
        bound.update(words(targets.group(1)))
    if data.find(b" as ", each.start, each.end) >= 0 or data.find(b":=", each.start, each.end) >= 0:
        for left, right in _NAMED.findall(data, each.start, each.end):
            bound.update(words(left or right))
    return bound - _OBJECTS


def _keep(data: bytes, start: int, end: int, found: list[_Statement], also: frozenset[bytes]) -> None:
    """Mark what has to do with the architecture, in both directions along the names."""
    said = [frozenset(words(data[each.start : each.end].replace(b"cute.arch.", b"cute."))) for each in found]
    every = frozenset().union(*said)
    new = {word for word in every if word in also or _listed(word)}
    fresh = {index for index, inside in enumerate(said) if not new.isdisjoint(inside)}
    if keyed(data[start:end]):
        fresh.update(index for index, each in enumerate(found) if keyed(data[each.start : each.end]))
    constants = [i for i, each in enumerate(found) if _CONSTANT.match(data, each.start, each.end) is not None]
    marked: set[int] = set()
    led: set[bytes] = set()
    while fresh:
        marked |= fresh
        new = set().union(*(_binds(data, found[index]) for index in fresh)) - led
        led |= new
        fresh = {index for index in constants if _stands_under(found, index, marked)}
        if new:
            fresh.update(index for index, inside in enumerate(said) if not new.isdisjoint(inside))
        fresh -= marked
    # what is returned, and what an object is given, may be asked for from elsewhere
    roots = [
        index
        for index, each in enumerate(found)
        if data.startswith(b"return", each.start) or (not each.head and _FIELD.match(data, each.start, each.end))
    ]
    waiting = [*marked, *roots]
    for index in waiting:
        found[index].kept = True
    binders: dict[bytes, list[int]] = {}
    for index, each in enumerate(found):
        if not each.kept and (bound := _binds(data, each)) and _CALL.search(data, each.start, each.end) is None:
            for name in bound:
                binders.setdefault(name, []).append(index)
    while waiting:
        for name in said[waiting.pop()]:
            for index in binders.pop(name, ()):
                if not found[index].kept:
                    found[index].kept = True
                    waiting.append(index)


def _stands_under(found: list[_Statement], index: int, marked: set[int]) -> bool:
    under = found[index].under
    while under >= 0:
        if under in marked:
            return True
        under = found[under].under
    return False


def thinned(data: bytes, start: int, end: int, also: frozenset[bytes]) -> bytes | None:
    """``data[start:end]`` with the other statements replaced; None where there is nothing to replace.

    ``also`` are names that matter beside the telling ones.
    """
    if data.find(b"\r", start, end) >= 0:
        return None
    found = _statements(data, start, end)
    _keep(data, start, end, found, also)
    made: list[bytes] = []
    position = start
    before: _Statement | None = None
    for each in found:
        if each.kept or each.stays or each.end - each.start < len(b"pass"):
            before = None
            continue
        made.append(data[position : each.start])
        follows = before is not None and before.indent == each.indent
        made.append((b"" if follows else b"pass") + b"\n" * data.count(b"\n", each.start, each.end))
        position = each.end
        before = each
    if not made:
        return None
    made.append(data[position:end])
    return b"".join(made)
