"""What a statement writes: the fixed pieces of a text expression and the expressions that are filled in.

Python writes one message in many ways: literals side by side, ``+``, f-strings, ``%``, ``str.format``, and the lazy
arguments of a logger. All are read into the same parts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Hole", "Part", "fixed", "matched", "parts_of", "text_expressions"]

_PERCENT = re.compile(r"%(?:\((\w+)\))?[-#0 +]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[diouxXeEfFgGcrsa]|%%")
_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_LOGS = frozenset({"debug", "info", "warning", "warn", "error", "exception", "critical", "fatal", "log"})
_LOGS |= {"warning_once", "info_once", "error_once"}


@dataclass(frozen=True, slots=True)
class Hole:
    """A place that is filled in while running; ``name`` is the expression as written."""

    name: str


Part = str | Hole


def text_expressions(node: ast.AST, line: int) -> Iterator[tuple[ast.expr, tuple[Part, ...], bool]]:
    """(expression, its parts, whether it is handed on) for the outermost text expressions that span a line.

    A bare string statement (a docstring) is not handed on to anyone.
    """
    pending: list[tuple[ast.AST, bool]] = [(child, True) for child in ast.iter_child_nodes(node)]
    while pending:
        at, used = pending.pop()
        first, last = getattr(at, "lineno", None), getattr(at, "end_lineno", None)
        if first is not None and not first <= line <= (last or first):
            continue
        if isinstance(at, ast.expr):
            parts = parts_of(at)
            if parts and any(isinstance(part, str) for part in parts):
                yield at, parts, used
                continue
        bare = isinstance(at, ast.Expr) and isinstance(at.value, ast.Constant)
        pending.extend((child, not bare) for child in ast.iter_child_nodes(at))


def parts_of(node: ast.expr) -> tuple[Part, ...] | None:
    """The parts of a text expression, None where it is no text as far as the code shows."""
    match node:
        case ast.Constant(value=str(text)):
            return (text,)
        case ast.JoinedStr(values=values):
            return tuple(
                str(value.value) if isinstance(value, ast.Constant) else Hole(_written(value)) for value in values
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            one, other = parts_of(left), parts_of(right)
            if one is None and other is None:
                return None
            return (*(one or (Hole(ast.unparse(left)),)), *(other or (Hole(ast.unparse(right)),)))
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            template = parts_of(left)
            given = list(right.elts) if isinstance(right, ast.Tuple) else [right]
            return _filled(template, _PERCENT, given) if template is not None else None
        case ast.Call(func=ast.Attribute(value=value, attr="format"), args=given):
            template = parts_of(value)
            return _filled(template, _BRACES, given) if template is not None else None
        case ast.Call(func=ast.Attribute(attr=name), args=[first, *given]) if name in _LOGS and given:
            template = parts_of(first)
            return _filled(template, _PERCENT, given) if template is not None else None
        case ast.IfExp(body=body, orelse=orelse):
            return None if parts_of(body) is None and parts_of(orelse) is None else (Hole(ast.unparse(node)),)
        case _:
            return None


def _written(value: ast.expr) -> str:
    return ast.unparse(value.value) if isinstance(value, ast.FormattedValue) else ast.unparse(value)


def _filled(text: Sequence[Part], places: re.Pattern[str], given: Sequence[ast.expr]) -> tuple[Part, ...]:
    """The parts of a template once its places are filled in order; a place without a value is a nameless hole."""
    values = iter(given)
    found: list[Part] = []
    for part in text:
        if isinstance(part, Hole):
            found.append(part)
            continue
        at = 0
        for match in places.finditer(part):
            found.append(part[at : match.start()])
            at = match.end()
            if match.group() in ("%%", "{{", "}}"):
                found.append(match.group()[0])
                continue
            value = next(values, None)
            found.append(Hole(ast.unparse(value) if value is not None else match.group(1) or ""))
        found.append(part[at:])
    return tuple(part for part in found if part != "")


def fixed(parts: Sequence[Part]) -> str:
    """What a message writes out itself, words apart by one space, an ellipsis where something is filled in."""
    return " ".join("".join(part if isinstance(part, str) else "…" for part in parts).split())


def matched(parts: Sequence[Part], text: str) -> tuple[int, dict[str, str], str] | None:
    """(characters that both write out, expression → text shown, the words that both share where that is all) where the
    parts write this text or a part of it.

    The whole message is looked for in the text first, then the text in the message (somebody quoted a piece of
    it), then the longest run of words that both share (somebody quoted the first line).
    """
    pattern, names, length = "", [], 0
    for part in parts:
        if isinstance(part, str):
            # the last stop of a message is often not quoted along
            told = (part.rstrip(" .!") or part) if part is parts[-1] else part
            length += len(told.strip())
            pattern += r"\s+".join(re.escape(word) for word in re.split(r"\s+", told))
        else:
            names.append(part.name)
            pattern += "(.*?)"
    text = " ".join(text.split())
    if length >= _SHORTEST:
        # A message that begins with what is filled in begins after the kind of the error.
        shown = _ERROR.sub("", text) if isinstance(parts[0], Hole) else text
        found = re.search(pattern + (r"\s*$" if pattern.endswith("(.*?)") else ""), shown)
        if found is not None:
            return length, dict(zip(names, found.groups(), strict=True)), ""
    whole = fixed(parts)
    if len(text) >= _SHORTEST and text in whole:
        return len(text), {}, ""
    shared = _shared(whole.split(), text.split())
    return (len(shared), {}, shared) if shared.count(" ") + 1 >= _RUN and len(shared) >= _RUN_LENGTH else None


_ERROR = re.compile(r"^.*?\b\w*(?:Error|Exception|Warning): ")
_SHORTEST = 10  # characters of a message that are enough to know it by
_RUN = 5  # words in a row …
_RUN_LENGTH = 24  # … and characters, that are enough to know a message by when the rest differs


def _shared(one: Sequence[str], other: Sequence[str]) -> str:
    """The longest run of words that two texts share."""
    from difflib import SequenceMatcher

    run = SequenceMatcher(None, one, other, autojunk=False).find_longest_match()
    return " ".join(one[run.a : run.a + run.size])
