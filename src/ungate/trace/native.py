"""C++ and CUDA text as units: functions, kernels, classes and macros with the words each uses.

This is no parser. Comments and strings are blanked, directives are set apart, and braces are followed. The
words of a unit are every identifier in it, so that what is reached over words is never less than what is
reached over calls: *not reached* is then a proof, up to text that a generator writes. Where the braces of a
file do not balance, nothing in it is proven.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Native", "Unit", "blank", "read_native"]

_NOISE = re.compile(
    rb'//(?:\\\n|[^\n])*|/\*.*?\*/|R"(\w{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n]){1,8}\'', re.DOTALL
)
_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(\w+)((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
_WORDS = re.compile(rb"[A-Za-z_]\w*")
_CALLED = re.compile(rb"([~\w:]+|operator\s*[^\s\w(]{1,3}|operator\s*\(\s*\))\s*(?:<[^<>;{}]*>)?\s*\(")
_NOT_NAMES = frozenset(
    {b"__launch_bounds__", b"__attribute__", b"__declspec", b"alignas", b"requires", b"decltype", b"noexcept"}
    | {b"__align__", b"if", b"while", b"for", b"switch", b"catch", b"sizeof", b"__block_size__", b"__cluster_dims__"}
)
_EXPORT = re.compile(rb"TVM_FFI_DLL_EXPORT_TYPED_FUNC\s*\(\s*([\w:]+)\s*,\s*([\w:]+)")
_BOUND = re.compile(
    rb"\b\w+\s*\.\s*(?:def|impl)\s*\(\s*\"([\w.]+)(?:\([^\"]*)?\"(?:[^;]*?)(?:&|\bTORCH_FN\()\s*([\w:]+)"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A function, class, alias or macro. ``first`` and ``last`` are 1-based lines, inclusive."""

    file: str
    name: str
    first: int
    last: int
    words: frozenset[str]
    kernel: bool = False
    function: bool = False


@dataclass(frozen=True, slots=True)
class Native:
    """One file. ``exports`` maps what Python calls to (function, line); ``includes`` are (text, line)."""

    file: str
    units: tuple[Unit, ...]
    includes: tuple[tuple[str, int], ...]
    exports: dict[str, tuple[str, int]]
    balanced: bool
    regions: dict[int, int]  # the line of each #if, #ifdef, #ifndef and #elif to the line of its group's #endif

    def around(self, line: int) -> Unit | None:
        """The innermost unit that holds a line."""
        inside = [unit for unit in self.units if unit.first <= line <= unit.last]
        return min(inside, key=lambda unit: unit.last - unit.first) if inside else None


def blank(text: bytes) -> bytes:
    """The text with comments and literals turned into spaces, line breaks kept."""
    return _NOISE.sub(lambda match: re.sub(rb"[^\n]", b" ", match.group()), text)


def read_native(file: str, text: bytes) -> Native:
    """Read one file; never fails, ``balanced`` tells whether its structure could be followed."""
    exports = {
        match.group(1).decode(): (match.group(2).decode().rpartition("::")[2], text.count(b"\n", 0, match.start()) + 1)
        for pattern in (_EXPORT, _BOUND)
        for match in pattern.finditer(text)
    }
    includes = tuple(
        (match.group(2).decode("utf-8", "replace"), text.count(b"\n", 0, match.start()) + 1)
        for match in _INCLUDE.finditer(text)
    )
    code = blank(text)
    macros = [_macro(file, code, match) for match in _DIRECTIVE.finditer(code) if match.group(1) == b"define"]
    regions = _regions(code)
    code = _DIRECTIVE.sub(lambda match: re.sub(rb"[^\n]", b" ", match.group()), code)
    units, balanced = _units(file, code)
    return Native(file, (*units, *(unit for unit in macros if unit)), includes, exports, balanced, regions)


def _regions(code: bytes) -> dict[int, int]:
    regions: dict[int, int] = {}
    stack: list[list[int]] = []
    line, at = 1, 0
    for match in _DIRECTIVE.finditer(code):
        line += code.count(b"\n", at, match.start())
        at = match.start()
        word = match.group(1)
        if word in (b"if", b"ifdef", b"ifndef"):
            stack.append([line])
        elif word == b"elif" and stack:
            stack[-1].append(line)
        elif word == b"endif" and stack:
            regions.update(dict.fromkeys(stack.pop(), line))
    return regions


def _words(code: bytes) -> frozenset[str]:
    return frozenset(word.decode() for word in set(_WORDS.findall(code)))


def _macro(file: str, code: bytes, match: re.Match[bytes]) -> Unit | None:
    name = _WORDS.search(match.group(2))
    if name is None:
        return None
    first = code.count(b"\n", 0, match.start()) + 1
    last = first + match.group().count(b"\n")
    return Unit(file, name.group().decode(), first, last, _words(match.group(2)[name.end() :]))


def _units(file: str, code: bytes) -> tuple[list[Unit], bool]:
    """Follow the braces: what stands before ``{`` says whether it opens a namespace, a class or a function."""
    units: list[Unit] = []
    stack: list[tuple[str, bytes, int]] = []  # kind, name, offset of the head
    head = 0
    deep = 0  # braces open inside a function, where nothing is told apart
    balanced = True
    breaks = [match.start() for match in re.finditer(rb"\n", code)]

    def line(offset: int) -> int:
        from bisect import bisect_left

        return bisect_left(breaks, offset) + 1

    for match in re.finditer(rb"[{};]", code):
        at, mark = match.start(), match.group()
        if mark == b"{":
            if deep:
                deep += 1
                continue
            kind, name = _opens(code[head:at])
            stack.append((kind, name, head + _indent(code[head:at])))
            deep = 1 if kind in ("function", "block") else 0
            head = at + 1
        elif mark == b"}":
            if deep > 1:
                deep -= 1
                continue
            if not stack:
                balanced = False
                continue
            deep = 0
            kind, name, start = stack.pop()
            if name:
                body = code[start : at + 1]
                kernel = kind == "function" and b"__global__" in body.split(b"{", 1)[0]
                words = _words(body)
                units.append(Unit(file, name.decode(), line(start), line(at), words, kernel, kind == "function"))
            head = at + 1
        elif not deep:
            statement = code[head:at]
            if b"=" in statement:
                left = _WORDS.findall(statement.partition(b"=")[0])
                if left:
                    start = head + _indent(statement)
                    units.append(Unit(file, left[-1].decode(), line(start), line(at), _words(statement)))
            head = at + 1
    return units, balanced and not stack


def _indent(code: bytes) -> int:
    return len(code) - len(code.lstrip())


def _opens(head: bytes) -> tuple[str, bytes]:
    text = _without_templates(head.strip())
    if re.search(rb"\bnamespace\b", text) or text == b"extern":
        return "namespace", b""
    plain = re.search(rb"\b(?:struct|class|union|enum(?:\s+class)?)\b(?!.*\()\s*(?:\w+\s*\([^)]*\)\s*)*([\w:]*)", text)
    for match in _CALLED.finditer(text):
        name = re.sub(rb"\s", b"", match.group(1)).rpartition(b"::")[2]
        if name and name not in _NOT_NAMES:
            return "function", name
    if plain:
        return "class", plain.group(1).rpartition(b"::")[2]
    if b"=" in text:
        left = _WORDS.findall(text.partition(b"=")[0])
        return "block", left[-1] if left else b""
    return "block", b""


def _without_templates(text: bytes) -> bytes:
    """The head of a declaration without its ``template <…>`` prefixes, angle brackets counted."""
    while match := re.match(rb"\s*template\s*<", text):
        depth, at = 1, match.end()
        while at < len(text) and depth:
            depth += {60: 1, 62: -1}.get(text[at], 0)
            at += 1
        text = text[at:]
    return text
