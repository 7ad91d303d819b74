"""From the text of an error back to the C++ or CUDA statement that writes it: a check macro, a throw, a print.

The text is looked for in the literals of one statement, side by side, as arguments or streamed. A check macro raises
where its first argument does not hold; anything else where the ``if`` around it does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from ungate.trace.corpus import Corpus
from ungate.trace.message import windows
from ungate.trace.native import blank
from ungate.trace.texts import Hole, Part, matched

__all__ = ["Thrown", "including", "thrown"]

_THIRD_PARTY = ("cutlass/", "cccl/", "spdlog/", "3rdparty/", "third_party/", "/cute/")
_LITERAL = re.compile(rb'"((?:\\.|[^"\\\n])*)"')
_CHECK = re.compile(rb"\b(\w*(?:CHECK|ASSERT|ENFORCE|REQUIRE)\w*)\s*\(")
_SIGNS = {b"EQ": "==", b"NE": "!=", b"GE": ">=", b"GT": ">", b"LE": "<=", b"LT": "<"}
_NAMED = re.compile(r"([\w.-]+\.(?:cuh?|h|hpp|cc|cpp|inl)):\d+")
_MOST_PLACES = 40
_TELLING = 40  # characters shared with a message that names a file of another package
_LONGEST = 140
_LEVELS = 5  # includes that are followed upwards


@dataclass(frozen=True, slots=True)
class Thrown:
    """A statement whose literals match. ``first`` and ``last`` are the lines of the statement and of the condition
    before it; ``condition`` is what leads to it, in the words of the code; ``fixed`` counts shared characters."""

    file: str
    line: int
    first: int
    last: int
    condition: str
    fixed: int


def natives(corpus: Corpus) -> Iterator[str]:
    """The native files that are text and the packages' own."""
    for file in corpus.native:
        if not file.endswith((".so", ".jinja")) and not any(part in file for part in _THIRD_PARTY):
            yield file


def thrown(corpus: Corpus, text: str) -> tuple[Thrown, ...]:
    """Every statement of the packages' C++ and CUDA text whose message matches, the closest match first."""
    pieces = [piece.encode() for piece in windows(text)]
    found: dict[tuple[str, int], Thrown] = {}
    for file in natives(corpus):
        content = corpus.text(file)
        offsets = sorted({at for piece in pieces for at in _places(content, piece)})
        if not offsets or len(offsets) > _MOST_PLACES:
            continue
        code = blank(content)
        breaks = [match.start() for match in re.finditer(rb"\n", content)]
        for offset in offsets:
            start, end = _statement(code, offset)
            match = matched(_parts(content[start:end]), text)
            if match is None:
                continue
            condition, head = _condition(code, content, start, end)
            line = bisect_right(breaks, offset) + 1
            first, last = bisect_right(breaks, head) + 1, bisect_right(breaks, end) + 1
            found.setdefault((file, first), Thrown(file, line, first, last, condition, match[0]))
    named = {match.group(1) for match in _NAMED.finditer(text)}  # the file that the message itself names

    if named and not any(corpus.natives(file) for file in named):
        # The package that writes it is not here; a few words that another one shares say nothing of it.
        found = {at: hit for at, hit in found.items() if hit.fixed >= _TELLING}

    def place(hit: Thrown) -> tuple[bool, int]:
        return hit.file.rpartition("/")[2] not in named, -hit.fixed

    return tuple(sorted(found.values(), key=place))


def _places(content: bytes, piece: bytes) -> Iterator[int]:
    at = content.find(piece)
    while at >= 0:
        yield at
        at = content.find(piece, at + len(piece))


def _statement(code: bytes, offset: int) -> tuple[int, int]:
    """(start, end) of the statement around an offset, in text whose literals are blanked."""
    start = max(code.rfind(mark, 0, offset) for mark in (b";", b"{", b"}")) + 1
    ends = [at for mark in (b";", b"}") if (at := code.find(mark, offset)) >= 0]
    start += len(code[start:offset]) - len(code[start:offset].lstrip())
    return start, min(ends, default=len(code))


def _parts(statement: bytes) -> tuple[Part, ...]:
    """The literals of a statement; whatever stands between two of them is filled in, unless it is only space."""
    found: list[Part] = []
    at = 0
    for match in _LITERAL.finditer(statement):
        between = statement[at : match.start()].strip(b" \n\r\t\\,<")
        at = match.end()
        if between.endswith(b"?") or (between == b":" and found and found[-1] == Hole("?")):
            found.append(Hole("?"))  # one of two texts, chosen while running
            continue
        if found and between:
            found.append(Hole(between.decode("utf-8", "replace")))
        text = match.group(1).decode("utf-8", "replace").replace("\\n", " ").replace('\\"', '"')
        pieces = re.split(r"%(?:\.?\d+)?(?:l{0,2}[dux]|[dsfxu])", text)  # printf's places
        for index, piece in enumerate(pieces):
            found.extend([Hole("")] if index else [])
            found.append(piece)
    return tuple(found)


def _condition(code: bytes, content: bytes, start: int, end: int) -> tuple[str, int]:
    """(what leads to a statement, the offset where that begins): a check's first argument, or the ``if`` before it."""
    check = _CHECK.match(code, start)
    if check is not None:
        argument = _argument(code, check.end(), end)
        holds = _told(content[check.end() : argument])
        sign = _SIGNS.get(check.group(1).rpartition(b"_")[2])
        if sign:
            holds += f" {sign} {_told(content[argument + 1 : _argument(code, argument + 1, end)])}"
        return f"not ({holds})", start
    before = code[:start].rstrip()
    if before.endswith(b"{"):
        before = before[:-1].rstrip()
    if before.endswith(b")"):
        opening = _opening(before)
        word = re.search(rb"\bif\s*(?:constexpr\s*)?$", before[:opening])
        if word is not None:
            return _told(content[opening + 1 : len(before) - 1]), word.start()
    if before.endswith(b"else"):
        return "the conditions before it do not hold", len(before) - 4
    return "", start


def _argument(code: bytes, start: int, end: int) -> int:
    """Where the first argument of a call ends."""
    depth = 0
    for at in range(start, end):
        byte = code[at : at + 1]
        if byte in b"([{":
            depth += 1
        elif byte in b")]}":
            if not depth:
                return at
            depth -= 1
        elif byte == b"," and not depth:
            return at
    return end


def _opening(before: bytes) -> int:
    """The offset of the bracket that the last one closes."""
    depth = 0
    for at in range(len(before) - 1, -1, -1):
        byte = before[at : at + 1]
        depth += (byte == b")") - (byte == b"(")
        if not depth:
            return at
    return 0


def _told(text: bytes) -> str:
    told = " ".join(text.decode("utf-8", "replace").replace("\\", " ").split())
    return told if len(told) <= _LONGEST else told[: _LONGEST - 1] + "…"


def including(corpus: Corpus, file: str) -> tuple[str, ...]:
    """The sources (files that are compiled by themselves) that include a file, over at most five headers."""
    sources: dict[str, None] = {}
    seen, pending = {file}, [file]
    for _ in range(_LEVELS):
        sources.update((each, None) for each in pending if not each.endswith((".h", ".cuh", ".hpp", ".inl")))
        names = {each.rpartition("/")[2].encode() for each in pending}
        if not names:
            break
        pattern = re.compile(rb'#\s*include\s*["<](?:[^">\n]*/)?(?:' + b"|".join(map(re.escape, names)) + rb')[">]')
        pending = [each for each in natives(corpus) if each not in seen and pattern.search(corpus.text(each))]
        seen.update(pending)
    return tuple(sources)
