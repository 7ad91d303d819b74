"""A Python file cut into its statements without parsing it.

Parsing every file of an inference stack takes most of a minute, and hardly one function in twenty says anything about
the architecture. So a file is first cut at the lines that begin a statement at one indentation, and only the pieces
of interest are parsed. Triple quotes are followed; where a cut is wrong all the same, the piece does not parse and the
caller parses the file as a whole.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

__all__ = ["Piece", "line_starts", "pieces", "quoted"]

_TRIPLE = (b'"""', b"'''")
_HEAD = re.compile(rb"(?:async[ \t]+)?(def|class)[ \t]+([^\W\d]\w*)")
_TABLE = re.compile(rb"([^\W\d]\w*)[ \t]*(?::[^=\n]*)?=[ \t]*[\[({]")
_LONG_TABLE = 4096
"""Bytes of a table that is a piece of its own, so that the names beside it can be bound without it."""
_GOES_ON = re.compile(rb"(?:else|elif|except|finally)\b")


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive lines that hold one statement, or several that are neither function nor class.

    ``start`` and ``end`` are byte offsets, ``line`` is the 1-based line of ``start``; ``name`` that of a def or class,
    or the only one that a long table is bound to.
    """

    kind: Literal["def", "class", "other"]
    name: str
    start: int
    end: int
    line: int
    indent: int


def line_starts(data: bytes) -> list[int]:
    """The byte offset at which each line begins, for all three line ends that Python knows."""
    return [0, *accumulate(map(len, data.splitlines(keepends=True)))]


def quoted(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The byte ranges of triple-quoted strings."""
    at = start
    following = [data.find(delimiter, at, end) for delimiter in _TRIPLE]
    while True:
        for index, delimiter in enumerate(_TRIPLE):
            if 0 <= following[index] < at:
                following[index] = data.find(delimiter, at, end)
        opened = min((place for place in following if place >= 0), default=-1)
        if opened < 0:
            return
        delimiter = _TRIPLE[following.index(opened)]
        if data[data.rfind(b"\n", 0, opened) + 1 : opened].lstrip().startswith(b"#"):
            at = opened + 3
            continue
        closed = data.find(delimiter, opened + 3, end)
        if closed < 0:
            yield opened, end
            return
        at = closed + 3
        yield opened, at


@functools.lru_cache(maxsize=64)
def _statement_line(indent: int) -> re.Pattern[bytes]:
    # a pattern that begins with one letter is looked for as fast as that letter; ``^`` is tried at every byte
    return re.compile(rb"\n[ \t]{%d}(?=[^\s#)\]}])" % indent)


@functools.lru_cache(maxsize=64)
def _first_line(indent: int) -> re.Pattern[bytes]:
    return re.compile(rb"[ \t]{%d}(?=[^\s#)\]}])" % indent)


def _lines(data: bytes, start: int, end: int, indent: int) -> Iterator[tuple[int, int]]:
    """Where lines with a statement of that indentation begin, and where their first letter is."""
    if (start == 0 or data[start - 1 : start] == b"\n") and (first := _first_line(indent).match(data, start, end)):
        yield start, first.end()
    for match in _statement_line(indent).finditer(data, start, end):
        yield match.start() + 1, match.end()


def pieces(
    data: bytes, start: int, end: int, line: int, indent: int = 0, quotes: Iterable[tuple[int, int]] | None = None
) -> tuple[Piece, ...]:
    """Cut ``data[start:end]``, whose first line has number ``line``, at the statements of one indentation.

    ``quotes`` are the byte ranges of triple-quoted strings where they are known, in order.
    """
    found: list[Piece] = []
    strings = iter(quoted(data, start, end) if quotes is None else quotes)
    hold = next(strings, (end, end))
    begin, begin_line, kind, name = -1, line, "other", ""
    counted, position = line, start
    decorated = False
    table: tuple[int, int, bytes] | None = None  # where a statement that may be a long table begins, its line and name
    for at, first in _lines(data, start, end, indent):
        while hold[1] <= first and hold[0] < end:
            hold = next(strings, (end, end))
        if hold[0] < first < hold[1]:
            continue
        if _GOES_ON.match(data, first):
            continue
        counted += data.count(b"\n", position, at)
        position = at
        if table is not None and at - table[0] >= _LONG_TABLE:
            if table[0] > begin:
                found.append(Piece("other", "", begin, table[0], begin_line, indent))
            found.append(_table(data, table, at, indent))
            begin = -1
        table = None
        head = _HEAD.match(data, first)
        at_sign = data[first : first + 1] == b"@"
        if decorated:
            if head:
                kind, name, decorated = head[1].decode(), head[2].decode("utf-8", "replace"), False
            elif not at_sign:
                decorated = False
            continue
        plain = not head and not at_sign
        if begin >= 0:
            if plain and kind == "other":
                table = _begins_table(data, first, at, counted)
                continue
            found.append(Piece(kind, name, begin, at, begin_line, indent))  # type: ignore[arg-type]
        begin, begin_line = at, counted
        table = _begins_table(data, first, at, counted) if plain else None
        decorated = at_sign
        kind, name = (head[1].decode(), head[2].decode("utf-8", "replace")) if head else ("other", "")
    if table is not None and end - table[0] >= _LONG_TABLE:
        if table[0] > begin:
            found.append(Piece("other", "", begin, table[0], begin_line, indent))
        found.append(_table(data, table, end, indent))
    elif begin >= 0:
        found.append(Piece(kind, name, begin, end, begin_line, indent))  # type: ignore[arg-type]
    return tuple(found)


def _begins_table(data: bytes, first: int, at: int, line: int) -> tuple[int, int, bytes] | None:
    named = _TABLE.match(data, first)
    return None if named is None else (at, line, named[1])


def _table(data: bytes, table: tuple[int, int, bytes], end: int, indent: int) -> Piece:
    start, line, name = table
    alone = data.find(b":=", start, end) < 0 and data.find(b";", start, end) < 0
    return Piece("other", name.decode("utf-8", "replace") if alone else "", start, end, line, indent)
