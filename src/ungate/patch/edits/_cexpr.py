"""The logical skeleton of one C++ condition: ``||``, ``&&``, ``!`` and parentheses, with byte positions.

Everything below these operators is one term. A condition is read alone, never a whole file: what stands around it
may be torn by the preprocessor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ungate.patch.edits import Unopenable

__all__ = ["Comparison", "Node", "comparison", "leaves", "parse", "pure"]

_TOKEN = re.compile(
    rb"(?P<skip>\s+|\\\r?\n|//[^\n]*|/\*.*?\*/)"
    rb"|(?P<word>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)"
    rb"|(?P<number>\d[\w']*)"
    rb"|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    rb"|(?P<op>\|\||&&|==|!=|<=|>=|<<|>>|->|[-+*/%<>!~^&|?:=.,()\[\]{}#])",
    re.DOTALL,
)
_ALTERNATIVE = {b"and": b"&&", b"or": b"||", b"not": b"!"}


@dataclass(frozen=True, slots=True)
class Node:
    """``kind`` is one of or, and, not, term; [start, end) includes the node's own parentheses unless it is ``bare``."""

    kind: str
    start: int
    end: int
    children: tuple[Node, ...] = ()
    bare: bool = True


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: bytes
    start: int
    end: int


def _tokens(text: bytes, offset: int) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unopenable("its condition holds a character that C++ does not know here")
        kind = match.lastgroup or ""
        if kind != "skip":
            word = match.group()
            if word in _ALTERNATIVE:
                kind, word = "op", _ALTERNATIVE[word]
            found.append(_Token(kind, word, offset + at, offset + match.end()))
        at = match.end()
    return found


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def _peek(self) -> bytes:
        return self.tokens[self.at].text if self.at < len(self.tokens) else b""

    def chain(self, kind: str, sign: bytes, below: Callable[[], Node]) -> Node:
        parts = [below()]
        while self._peek() == sign:
            self.at += 1
            parts.append(below())
        if len(parts) == 1:
            return parts[0]
        return Node(kind, parts[0].start, parts[-1].end, tuple(parts))

    def either(self) -> Node:
        return self.chain("or", b"||", self.both)

    def both(self) -> Node:
        return self.chain("and", b"&&", self.unary)

    def unary(self) -> Node:
        if self._peek() == b"!":
            start = self.tokens[self.at].start
            self.at += 1
            inner = self.unary()
            return Node("not", start, inner.end, (inner,))
        if self._peek() == b"(" and (group := self._group()) is not None:
            return group
        return self.term()

    def _group(self) -> Node | None:
        """A parenthesised condition, unless what follows makes it part of an arithmetic term."""
        begin = self.at
        self.at += 1
        try:
            inner = self.either()
        except Unopenable:
            self.at = begin
            return None
        if self._peek() != b")":
            self.at = begin
            return None
        close = self.tokens[self.at]
        self.at += 1
        if self._peek() not in (b"", b")", b"&&", b"||", b"?", b",", b";"):
            self.at = begin
            return None
        return Node(inner.kind, self.tokens[begin].start, close.end, inner.children, bare=False)

    def term(self) -> Node:
        begin, depth = self.at, 0
        while self.at < len(self.tokens):
            text = self._peek()
            if text in (b"(", b"[", b"{"):
                depth += 1
            elif text in (b")", b"]", b"}"):
                if depth == 0:
                    break
                depth -= 1
            elif depth == 0 and text in (b"&&", b"||", b"?", b";"):
                break
            self.at += 1
        if self.at == begin:
            raise Unopenable("its condition could not be read")
        return Node("term", self.tokens[begin].start, self.tokens[self.at - 1].end)


def parse(text: bytes, offset: int = 0) -> Node:
    """The skeleton of ``text``; positions count from ``offset``. Unopenable where it is no condition."""
    parser = _Parser(_tokens(text, offset))
    node = parser.either()
    if parser.at != len(parser.tokens):
        raise Unopenable("its condition could not be read to the end")
    return node


def leaves(node: Node) -> Iterator[Node]:
    """The terms, in order."""
    if node.kind == "term":
        yield node
    for child in node.children:
        yield from leaves(child)


def pure(node: Node, about_arch: Callable[[Node], bool]) -> bool:
    """Whether every term of the node is about the architecture."""
    return all(about_arch(leaf) for leaf in leaves(node))


_RELATION = re.compile(rb"^(?P<left>.*?)\s*(?P<op>==|!=|<=|>=|<(?![<=])|>(?![>=]))\s*(?P<right>.*)$", re.DOTALL)
_CONSTANT = re.compile(rb"\(*\s*(?:[A-Za-z_][\w:]*?[A-Za-z_])?(\d{1,4})(?:[uUlL]*)\s*\)*")


@dataclass(frozen=True, slots=True)
class Comparison:
    """``subject`` compared with a constant: the text on the variable's side, and the number."""

    subject: bytes
    value: int


def comparison(text: bytes) -> Comparison | None:
    """Read ``sm >= 100`` or ``90 == getSMVersion()`` or ``sm == kSM_90``; None for any other term."""
    text = text.strip()
    while text[:1] == b"(" and text[-1:] == b")" and text.count(b"(") == 1:
        text = text[1:-1].strip()
    match = _RELATION.match(text)
    if match is None:
        return None
    left, right = match["left"].strip(), match["right"].strip()
    if constant := _CONSTANT.fullmatch(right):
        return Comparison(left, int(constant[1]))
    if constant := _CONSTANT.fullmatch(left):
        return Comparison(right, int(constant[1]))
    return None
