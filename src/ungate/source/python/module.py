"""A Python file as the patterns look at it: parsed piece by piece, with what each name is bound to."""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from ungate.source.python.outline import Piece, line_starts, pieces, quoted
from ungate.source.python.scopes import Binding, Scope, bind
from ungate.source.python.thin import thinned
from ungate.source.reader import Unreadable

__all__ = ["ClassBody", "PythonModule", "Recut", "Unit", "decode"]

_LARGEST = 20 << 20
_LONG = 130
"""Lines of a function; a longer one is never read as a predicate, and only what matters in it is parsed."""
_start = attrgetter("start")
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Recut(Unreadable):
    """The cut was wrong; the module has been parsed as a whole and its pieces are others now: ask again."""


def decode(data: bytes) -> None:
    """Raise :class:`Unreadable` for bytes that are no Python source text."""
    if len(data) > _LARGEST:
        raise Unreadable(f"larger than {_LARGEST >> 20} MB")
    if b"\0" in data:
        raise Unreadable("contains NUL bytes")
    if data.isascii():
        return
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 (byte {error.start})") from None


@dataclass(eq=False, slots=True)
class Unit:
    """The parsed statements of one piece. ``shift`` is added to a node's line to give the line in the file.

    ``names`` None: the piece is parsed as it stands. Else it is a long function of which the statements are left out
    that have nothing to do with the architecture, nor with one of these names.
    """

    body: list[ast.stmt]
    shift: int
    piece: Piece
    names: frozenset[bytes] | None = None


@dataclass(eq=False, slots=True, repr=False)
class ClassBody:
    """A class that is parsed member by member: ``node`` holds its name alone where there are members."""

    node: ast.ClassDef
    members: tuple[Piece, ...]
    scope: Scope
    piece: Piece | None
    fields: dict[str, tuple[Binding, ...]] = field(default_factory=dict)
    _bases: list[ast.expr] | None = None

    @property
    def bases(self) -> list[ast.expr]:
        """What the class derives from; empty where its head cannot be parsed alone."""
        if not self.members or self.piece is None:
            return self.node.bases
        if self._bases is None:
            head = self.scope.module.data[self.piece.start : self.members[0].start]
            try:
                node = ast.parse(head + b" " * self.members[0].indent + b"pass\n").body[0]
            except (SyntaxError, ValueError):
                node = self.node
            self._bases = node.bases if isinstance(node, ast.ClassDef) else []
        return self._bases


class PythonModule:
    """One file: ``file`` is relative to the scanned root, ``dotted`` its module name.

    Names are bound lazily: a piece is parsed when one of its names is asked for. Raises :class:`Unreadable`
    from the constructor, and from any look-up, where the text is not Python.
    """

    def __init__(self, file: str, dotted: str, data: bytes) -> None:
        decode(data)
        self.file = file
        self.dotted = dotted
        self.data = data
        self._is_whole = False
        self.has_walrus = b":=" in data
        self._has_star = b"import *" in data
        self.is_package = file.endswith("__init__.py")
        self._starts: list[int] | None = None
        self._parsed: dict[int, Unit] = {}
        self._replaced: list[Unit] = []  # answers are remembered by the identity of nodes: these must not go
        self._classes: dict[int, ClassBody] = {}
        self._names: dict[str, tuple[Binding, ...]] = {}
        self._bound: dict[int, dict[str, list[Binding]]] = {}
        offset = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        self.quotes = tuple(quoted(data, offset, len(data)))
        self.pieces = pieces(data, offset, len(data), 1, quotes=self.quotes)
        self.scope = Scope(self, None, "module", shift=0)
        self._check_cut()

    def _check_cut(self) -> None:
        covered = self.pieces[0].start if self.pieces else len(self.data)
        head = self.data[:covered].strip().removeprefix(b"\xef\xbb\xbf")
        if head and not all(not line.strip() or line.lstrip().startswith(b"#") for line in head.splitlines()):
            self._whole()

    def _whole(self) -> None:
        """Fall back to one piece a top-level statement as the parser sees them."""
        self._is_whole = True
        try:
            tree = ast.parse(self.data)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise Unreadable(f"not Python: {_where(error, 0)}") from None
        starts = self.starts
        found: list[Piece] = []
        for node in tree.body:
            first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
            last = node.end_lineno or node.lineno
            end = starts[last] if last < len(starts) else len(self.data)
            kind: Literal["def", "class", "other"] = (
                "def" if isinstance(node, FunctionNode) else "class" if isinstance(node, ast.ClassDef) else "other"
            )
            name = node.name if isinstance(node, FunctionNode | ast.ClassDef) else ""
            if found and found[-1].end > starts[first - 1]:  # two statements on one line
                joined = found.pop()
                found.append(Piece("other", "", joined.start, end, joined.line, 0))
                continue
            found.append(Piece(kind, name, starts[first - 1], end, first, 0))
        self.pieces = tuple(found)
        self._parsed.clear()
        self._classes.clear()
        self._names.clear()
        self._bound.clear()

    @property
    def is_whole(self) -> bool:
        """Whether the module was parsed as a whole since cutting it failed."""
        return self._is_whole

    def is_hushed(self, at: int) -> bool:
        """Whether what stands at an offset is in a comment or a triple-quoted string, or is ``cute.arch``, a module."""
        if self.data.find(b"#", self.data.rfind(b"\n", 0, at) + 1, at) >= 0:
            return True
        if self.data.startswith(b"arch", at) and self.data.endswith(b"cute.", max(0, at - 5), at):
            return not self.data[at + 4 : at + 5].isalnum()
        index = bisect_right(self.quotes, (at, len(self.data)))
        return index > 0 and at < self.quotes[index - 1][1]

    def close(self) -> None:
        """Let go of every syntax tree; the module is of no use after that."""
        for body in self._classes.values():
            body.scope.close()
            body.fields.clear()
        self.scope.close()
        for kept in (self._parsed, self._replaced, self._classes, self._names, self._bound):
            kept.clear()
        self.pieces, self.quotes, self._starts, self.data = (), (), None, b""

    @property
    def starts(self) -> list[int]:
        if self._starts is None:
            self._starts = line_starts(self.data)
        return self._starts

    def span(self, first: ast.AST, last: ast.AST, shift: int) -> tuple[int, int]:
        """The byte range from the start of one node to the end of another."""
        start = self.starts[first.lineno + shift - 1] + first.col_offset  # type: ignore[attr-defined]
        end = self.starts[last.end_lineno + shift - 1] + last.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def text(self, span: tuple[int, int]) -> str:
        return self.data[span[0] : span[1]].decode("utf-8", "replace")

    def unit(self, piece: Piece, names: Collection[bytes] = ()) -> Unit:
        """Parse one piece; ``names`` are such as matter beside those that are telling. Raises :class:`Unreadable`."""
        ready = self._parsed.get(piece.start)
        if ready is not None and (
            ready.names is None
            or all(name in ready.names or self.data.find(name, piece.start, piece.end) < 0 for name in names)
        ):
            return ready
        made = self._thin(piece, frozenset(names) | (ready.names or frozenset() if ready else frozenset()))
        if made is None:
            body, shift = self._statements(piece, self.data[piece.start : piece.end])
            made = Unit(body, shift, piece)
        if ready is not None:
            self._replaced.append(ready)
        self._parsed[piece.start] = made
        return made

    def _thin(self, piece: Piece, names: frozenset[bytes]) -> Unit | None:
        if piece.kind != "def" or self.data.count(b"\n", piece.start, piece.end) <= _LONG:
            return None
        names = frozenset(name for name in names if self.data.find(name, piece.start, piece.end) >= 0)
        text = thinned(self.data, piece.start, piece.end, names)
        if text is None:
            return None
        try:
            body, shift = self._parse(piece, text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return Unit(body, shift, piece, names)

    def _parse(self, piece: Piece, text: bytes) -> tuple[list[ast.stmt], int]:
        if not piece.indent:
            return ast.parse(text).body, piece.line - 1
        (wrapper,) = ast.parse(b"if 1:\n" + text).body
        assert isinstance(wrapper, ast.If)
        return wrapper.body, piece.line - 2

    def _statements(self, piece: Piece, text: bytes) -> tuple[list[ast.stmt], int]:
        try:
            return self._parse(piece, text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            shift = piece.line - (2 if piece.indent else 1)
            if not self._is_whole:
                self._whole()
                raise Recut(f"not Python: {_where(error, shift)}") from None
            raise Unreadable(f"not Python: {_where(error, shift)}") from None

    def class_body(self, piece: Piece) -> ClassBody:
        """The class in a piece, parsed no further than its head."""
        if (ready := self._classes.get(piece.start)) is not None:
            return ready
        first = _after_head(self.data, self.data.find(b"class", piece.start), piece.end)
        indent = _first_indent(self.data, first, piece.end)
        line = piece.line + self.data.count(b"\n", piece.start, first)
        quotes = self.quotes[bisect_left(self.quotes, (first, 0)) :]
        members = pieces(self.data, first, piece.end, line, indent, quotes) if indent and not self._is_whole else ()
        if members:
            node = ast.ClassDef(piece.name, [], [], [], [])
        else:
            whole = self.unit(piece).body[0]
            assert isinstance(whole, ast.ClassDef)
            node = whole
        scope = Scope(self, self.scope, "class", shift=piece.line - 1, node=node)
        made = self._classes[piece.start] = ClassBody(node, members, scope, piece)
        scope.owner = made
        if not members:
            bind(scope, node.body)
        return made

    def lookup(self, name: str) -> tuple[Binding, ...]:
        """What a module-level name is bound to, in order of line."""
        if (ready := self._names.get(name)) is None:
            ready = self._names[name] = tuple(self._find(self.pieces, self.scope, name))
        return ready

    def member(self, body: ClassBody, name: str) -> tuple[Binding, ...]:
        """What a name in a class body is bound to."""
        if name not in body.fields:
            body.fields[name] = (
                tuple(self._find(body.members, body.scope, name))
                if body.members
                else tuple(body.scope.bindings.get(name, ()))
            )
        return body.fields[name]

    def _find(self, among: tuple[Piece, ...], scope: Scope, name: str) -> Iterator[Binding]:
        for piece in self._with(among, name):
            if piece.kind == "other":
                if piece.name not in ("", name):
                    continue
                yield from self.names_of(piece, scope).get(name, ())
            elif piece.name == name:
                if piece.kind == "class" and scope.kind == "module":
                    body = self.class_body(piece)
                    yield Binding("class", body.node, piece.line, scope, body=body)
                else:
                    unit = self.unit(piece)
                    yield Binding(piece.kind, unit.body[0], piece.line, scope, shift=unit.shift)

    def _with(self, among: tuple[Piece, ...], name: str) -> Iterator[Piece]:
        """The pieces in which a name occurs, in order."""
        if not among:
            return
        wanted, end = name.encode(), among[-1].end
        at = self.data.find(wanted, among[0].start, end)
        while at >= 0:
            piece = among[bisect_right(among, at, key=_start) - 1]
            if at < piece.end:
                yield piece
            at = self.data.find(wanted, max(at + 1, piece.end), end)

    def names_of(self, piece: Piece, scope: Scope) -> dict[str, list[Binding]]:
        """The bindings that a piece makes in its scope."""
        if (ready := self._bound.get(piece.start)) is None:
            unit = self.unit(piece)
            part = Scope(self, scope.parent, scope.kind, shift=unit.shift)
            bind(part, unit.body, into=scope)
            ready = self._bound[piece.start] = part.bindings
        return ready

    def star_imports(self) -> Iterator[Binding]:
        """The ``from x import *`` of the module."""
        if not self._has_star:
            return
        for piece in self.pieces:
            if piece.kind == "other" and self.data.find(b"import *", piece.start, piece.end) >= 0:
                yield from self.names_of(piece, self.scope).get("*", ())


def _where(error: Exception, shift: int) -> str:
    """What the parser says, with the line in the file; ``shift`` is added to the line that it counts."""
    if isinstance(error, SyntaxError):
        return f"line {(error.lineno or 1) + shift}: {error.msg}"
    if isinstance(error, RecursionError | MemoryError):
        return "nested too deeply to be parsed"
    return str(error)


_OF_A_HEAD = re.compile(rb"""[()\[\]{}:]|#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")


def _after_head(data: bytes, start: int, end: int) -> int:
    """Where the line after the head of a class begins, which may go over several lines."""
    depth = 0
    for found in _OF_A_HEAD.finditer(data, start, end):
        match found.group():
            case b"(" | b"[" | b"{":
                depth += 1
            case b")" | b"]" | b"}":
                depth -= 1
            case b":" if not depth:
                return data.find(b"\n", found.start(), end) + 1 or end
    return end


def _first_indent(data: bytes, start: int, end: int) -> int:
    """The indentation of the first statement of a class; 0 where there is none."""
    for line in data[start:end].splitlines():
        bare = line.strip()
        if bare and not bare.startswith(b"#"):
            return len(line) - len(line.lstrip())
    return 0
