"""One preprocessor condition as a tree, through tree-sitter-c.

Only the condition is parsed, never the file. The alternative tokens ``and``, ``or`` and ``not`` are
normalised first, because the C grammar does not know them.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tree_sitter_c
from tree_sitter import Language, Parser

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = [
    "Binary",
    "Call",
    "Defined",
    "Expression",
    "Name",
    "Number",
    "Opaque",
    "Unary",
    "identifiers",
    "parse",
    "unreadable",
]

_WORDS = {"and": "&&", "or": "||", "not": "!", "bitand": "&", "bitor": "|", "xor": "^", "compl": "~", "not_eq": "!="}
_WORD = re.compile(r"\b(?:and|or|not|bitand|bitor|xor|compl|not_eq)\b")
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)[uUlLzZ]*\Z")
_CALL = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)[ \t]*\((?:[^()]|\([^()]*\))*\)")
_STAND_IN = "ungate_call_"
_LONGEST = 8_000  # characters of a condition that is still parsed; the longest seen in a real header has 900
_DEEPEST = 200  # operators and parentheses inside each other


@dataclass(frozen=True, slots=True)
class Number:
    """An integer literal, ``true`` and ``false`` included; ``unsigned`` with the suffix ``U``."""

    value: int
    unsigned: bool = False


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier outside ``defined``."""

    name: str


@dataclass(frozen=True, slots=True)
class Defined:
    """``defined(name)``."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function-like macro."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Unary:
    """``!``, ``-``, ``+`` or ``~``."""

    operator: str
    of: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """Any operator with two operands."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Opaque:
    """Text that is no C expression (a template placeholder, say)."""

    text: str


class _TooDeepError(Exception):
    """A condition that is nested deeper than is read."""


Expression = Number | Name | Defined | Call | Unary | Binary | Opaque


@functools.cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_c.language()))


def _integer(text: str) -> int | None:
    match = _NUMBER.match(text.replace("'", ""))
    if match is None:
        return None
    digits = match.group(1)
    if digits[:2].lower() in {"0x", "0b"}:
        return int(digits, 0)
    return int(digits, 8) if len(digits) > 1 and digits[0] == "0" and set(digits) <= set("01234567") else int(digits)


def _text(node: Node) -> str:
    return (node.text or b"").decode("latin-1")


def _children(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


def _convert(node: Node, depth: int = 0) -> Expression:
    if depth > _DEEPEST:
        raise _TooDeepError
    match node.type:
        case "parenthesized_expression":
            inside = _children(node)
            return _convert(inside[0], depth + 1) if len(inside) == 1 else Opaque(_text(node))
        case "binary_expression":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            operator = node.child_by_field_name("operator")
            if left is None or right is None or operator is None:
                return Opaque(_text(node))
            return Binary(_text(operator), _convert(left, depth + 1), _convert(right, depth + 1))
        case "unary_expression":
            operand, operator = node.child_by_field_name("argument"), node.child_by_field_name("operator")
            if operand is None or operator is None:
                return Opaque(_text(node))
            return Unary(_text(operator), _convert(operand, depth + 1))
        case "preproc_defined":
            inside = [child for child in _children(node) if child.type == "identifier"]
            return Defined(_text(inside[0])) if len(inside) == 1 else Opaque(_text(node))
        case "preproc_call_expression" | "call_expression":
            called = node.child_by_field_name("function")
            listed = node.child_by_field_name("arguments")
            arguments = tuple(_convert(child, depth + 1) for child in _children(listed)) if listed is not None else ()
            return Call(_text(called), arguments) if called is not None else Opaque(_text(node))
        case "identifier":
            word = _text(node)
            return Number(int(word == "true")) if word in {"true", "false"} else Name(word)
        case "number_literal":
            value = _integer(_text(node))
            return Opaque(_text(node)) if value is None else Number(value, "u" in _text(node).lower())
        case "true" | "false":
            return Number(int(node.type == "true"))
        case _:
            return Opaque(_text(node))


@functools.lru_cache(maxsize=32768)
def parse(text: str) -> Expression:
    """The condition after ``#if`` or ``#elif`` as a tree; what is no C expression becomes :class:`Opaque`.

    So does one that is too long or too deep to be read (:func:`unreadable` tells why): its names are still known.
    """
    if not text or _too_long(text):
        return Opaque(text)
    try:
        return _parse(text)
    except _TooDeepError:
        return Opaque(text)


def unreadable(text: str) -> str:
    """Why a condition is not taken apart, in words; empty where it is."""
    if _too_long(text):
        return f"the condition has {len(text)} characters and {text.count('(')} parentheses: too many to be read"
    try:
        _parse(text)
    except _TooDeepError:
        return f"the condition is nested deeper than {_DEEPEST} levels: it is not read"
    return ""


def _too_long(text: str) -> bool:
    return len(text) > _LONGEST or text.count("(") > 500


def _parse(text: str) -> Expression:
    normal = _WORD.sub(lambda word: _WORDS[word.group()], text) if _WORD.search(text) else text
    parsed = _condition(normal)
    if parsed is None:  # a macro call whose arguments are no expressions: (NVCC, >=, 12) or (<header>)
        calls: list[str] = []

        def stand_in(call: re.Match[str]) -> str:
            if call.group(1) == "defined":
                return call.group()
            calls.append(call.group())
            return f"{_STAND_IN}{len(calls) - 1}"

        parsed = _condition(_CALL.sub(stand_in, normal))
        return Opaque(text) if parsed is None else _restore(parsed, calls)
    return parsed


def _condition(text: str) -> Expression | None:
    tree = _parser().parse(b"#if " + text.encode("latin-1", "replace") + b"\n#endif\n")
    first = tree.root_node.named_children[:1]
    condition = first[0].child_by_field_name("condition") if first and first[0].type == "preproc_if" else None
    return None if condition is None or tree.root_node.has_error else _convert(condition)


def _restore(expression: Expression, calls: list[str]) -> Expression:
    match expression:
        case Name(name=name) if name.startswith(_STAND_IN):
            return Opaque(calls[int(name.removeprefix(_STAND_IN))])
        case Unary(operator=operator, of=inner):
            return Unary(operator, _restore(inner, calls))
        case Binary(operator=operator, left=left, right=right):
            return Binary(operator, _restore(left, calls), _restore(right, calls))
        case Call(name=name, arguments=arguments):
            return Call(name, tuple(_restore(each, calls) for each in arguments))
        case _:
            return expression


def identifiers(expression: Expression) -> frozenset[str]:
    """Every name that the expression reads; of an opaque part every word in it."""
    match expression:
        case Name(name=name) | Defined(name=name):
            return frozenset({name})
        case Unary(of=inner):
            return identifiers(inner)
        case Binary(left=left, right=right):
            return identifiers(left) | identifiers(right)
        case Call(name=name, arguments=arguments):
            return frozenset({name}).union(*(identifiers(each) for each in arguments))
        case Opaque(text=text):
            return frozenset(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text))
        case _:
            return frozenset()
