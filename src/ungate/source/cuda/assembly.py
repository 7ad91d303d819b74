"""Inline PTX: ``asm volatile("mma.sync …" : "=f"(d) : "r"(a), "n"(0));`` with its template and its operands.

The template is what the string literals come to. Where it is put together by the preprocessor (``"mov" #type``), it
cannot be known without expanding macros, and is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ungate.source.cuda.comments import blank

__all__ = ["Assembly", "Operand", "assemblies", "entries"]

_HEAD = re.compile(r"\b(?:asm|__asm__|__asm)\s*(?:\b(?:volatile|__volatile__|inline)\s*)*\(")
_RAW = re.compile(r'\bR"(?P<mark>[^()\\ ]{0,16})\((?P<text>[\s\S]*?)\)(?P=mark)"')
_LITERAL = re.compile(r'"(?P<text>(?:\\.|[^"\\\n])*)"|R"(?P<mark>[^()\\ ]{0,16})\((?P<raw>[\s\S]*?)\)(?P=mark)"')
_COMMENT = re.compile(r"//[^\n]*|/\*[\s\S]*?\*/")
_CONSTRAINT = re.compile(r'"[=+&]*(?P<letter>[A-Za-z])[A-Za-z]*"\s*\(')
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]+|[0-7]{1,3}|\r?\n|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\n": "", "\r\n": ""}
_LONGEST = 60_000  # bytes of one statement
_REGISTERS = {"r": ".b32", "l": ".b64", "h": ".b16", "f": ".f32", "d": ".f64", "q": ".b128"}
"""Register types of the constraint letters, by "Inline PTX Assembly in CUDA", section Constraints."""
_IMMEDIATES = (1, 0, 2, 4, 8, 16, 32, 64, 128)
_INTEGER = re.compile(r"(?:\(\s*(?:int|unsigned|uint32_t|int32_t)\s*\)\s*)?(-?(?:0x[0-9a-fA-F]+|\d+))[uUlL]*")
_PLACE = re.compile(r"%(%|=|\d+)")


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand: the letter of its constraint (one of ``r l h f d q n C``) and its text."""

    letter: str
    text: str


@dataclass(frozen=True, slots=True)
class Assembly:
    """One ``asm`` statement at bytes [start, end). ``template`` is None where the preprocessor makes it."""

    start: int
    end: int
    template: str | None
    operands: tuple[Operand, ...]


def assemblies(text: str, start: int = 0, end: int | None = None) -> Iterator[Assembly]:
    """The ``asm`` statements in [start, end) of a file decoded from Latin-1; those in ``#define`` lines included."""
    end = len(text) if end is None else end
    if "asm" not in text:
        return
    code = blank(_RAW.sub(lambda raw: '"' + " " * (len(raw[0]) - 2) + '"', text[start:end]))
    for head in _HEAD.finditer(code):
        found = _sections(code, head.end())
        if found is None:
            continue
        cuts, close = found
        template, operands = cuts[0], cuts[1:3]
        whole = [text[start + first : start + last] for first, last in (template, *operands)]
        listed = tuple(operand for each in whole[1:] for operand in _operands(each))
        yield Assembly(start + head.start(), start + close + 1, _template(whole[0]), listed)


def _sections(code: str, position: int) -> tuple[list[tuple[int, int]], int] | None:
    """The ranges between the colons of a statement that opens before ``position``, and where it closes."""
    depth, first = 0, position
    found: list[tuple[int, int]] = []
    for place in range(position, min(len(code), position + _LONGEST)):
        mark = code[place]
        if mark in "([{":
            depth += 1
        elif mark == ")" and depth == 0:
            return [*found, (first, place)], place
        elif mark in ")]}":
            depth -= 1
        elif mark == ":" and depth == 0:
            found.append((first, place))
            first = place + 1
    return None


def _template(text: str) -> str | None:
    parts, position = [], 0
    for literal in _LITERAL.finditer(text):
        if _COMMENT.sub("", text[position : literal.start()]).replace("\\\n", "").strip():
            return None
        raw = literal["raw"]
        parts.append(raw if raw is not None else _ESCAPE.sub(_unescaped, literal["text"]))
        position = literal.end()
    if _COMMENT.sub("", text[position:]).replace("\\\n", "").strip():
        return None
    return "".join(parts) if parts else None


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code in _ESCAPED:
        return _ESCAPED[code]
    if code[0] == "x":
        return chr(int(code[1:], 16) & 0xFF)
    return chr(int(code, 8) & 0xFF) if code[0] in "01234567" else code


def _operands(text: str) -> Iterator[Operand]:
    for found in _CONSTRAINT.finditer(text):
        depth = 1
        for place in range(found.end(), len(text)):
            depth += {"(": 1, ")": -1}.get(text[place], 0)
            if depth == 0:
                yield Operand(found["letter"], " ".join(text[found.end() : place].split()))
                break


def entries(assembly: Assembly) -> tuple[str, ...]:
    """The insides of PTX entries that hold the statement with registers for its operands.

    There are several where an immediate is not a plain number: any one that assembles will do. There are none where the
    template or an operand is not known.
    """
    if assembly.template is None:
        return ()
    numbers = [_INTEGER.fullmatch(operand.text) for operand in assembly.operands if operand.letter == "n"]
    values = _IMMEDIATES if None in numbers else _IMMEDIATES[:1]
    return tuple(dict.fromkeys(piece for value in values if (piece := _entry(assembly, value)) is not None))


def _entry(assembly: Assembly, immediate: int) -> str | None:
    names, declared = [], []
    for index, operand in enumerate(assembly.operands):
        if operand.letter == "n":
            number = _INTEGER.fullmatch(operand.text)
            names.append(number[1] if number else str(immediate))
        elif operand.letter in _REGISTERS:
            names.append(f"ungate_{index}")
            declared.append(f".reg {_REGISTERS[operand.letter]} ungate_{index};")
        else:
            return None
    unknown = False

    def put(place: re.Match[str]) -> str:
        nonlocal unknown
        if place[1] in "%=":
            return "%" if place[1] == "%" else "0"
        if int(place[1]) >= len(names):
            unknown = True
            return ""
        return names[int(place[1])]

    # Without operands the compiler leaves the template as it stands: a single % is then no place.
    template = assembly.template or ""
    body = _PLACE.sub(put, template) if names or "%%" in template else template
    return None if unknown else "\n".join((*declared, "{", body, "}"))
