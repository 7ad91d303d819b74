"""The preprocessor directives of a file, line by line, with their nesting.

No C++ grammar survives an ``#if`` inside an argument list or a brace that is closed in another branch, so
nothing but directives is looked at here: comments are skipped, continuations joined, and a condition is text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from ungate.source.cuda.comments import Blocks, block_comments

__all__ = ["Branch", "Define", "Directive", "Reading", "read", "test_lines"]

_HEAD = re.compile(  # begins with a literal: the search jumps from one "#" to the next
    r"#[ \t\v\f]*(ifn?def|if|elifn?def|elif|else|endif|define|undef|error)(?![A-Za-z0-9_])"
)
_BEFORE = re.compile(r"(?:\xef\xbb\xbf)?[ \t\v\f]*(?:/\*[^\n]*\*/[ \t\v\f]*)?")
_FARTHEST = 1000  # characters between the beginning of a line and its "#"
_NOISE = re.compile(r"/\*[\s\S]*?(?:\*/|\Z)|//[\s\S]*|\\\r?\n")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPENING = frozenset({"if", "ifdef", "ifndef"})
_FURTHER = frozenset({"elif", "elifdef", "elifndef"})


@dataclass(frozen=True, slots=True)
class Directive:
    """One logical line. ``text`` is its argument, comments and continuations removed; ``span`` the argument's bytes.

    ``start`` and ``end`` enclose the logical line from ``#`` to before the newline; lines are 1-based.
    """

    keyword: str
    line: int
    end_line: int
    start: int
    end: int
    text: str
    span: tuple[int, int]


@dataclass(slots=True)
class Branch:
    """The lines that one ``#if``, ``#elif`` or ``#else`` lets through: bytes [start, end).

    ``parent`` is the branch around it (-1 for none), ``earlier`` the branches before it in its group and
    ``later`` those after it, all as indices into :attr:`Reading.branches`.
    """

    index: int
    directive: Directive
    parent: int
    earlier: tuple[int, ...]
    start: int
    end: int = -1
    later: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Define:
    """``#define name(parameters) value`` and the branch it stands in (-1 for none); ``parameters`` None: an object."""

    name: str
    parameters: tuple[str, ...] | None
    value: str
    branch: int
    line: int
    undefines: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """The conditional structure of a file. ``problems`` says what was unbalanced, in words."""

    branches: tuple[Branch, ...]
    defines: tuple[Define, ...]
    errors: tuple[int, ...]
    blocks: Blocks
    problems: tuple[str, ...] = ()
    _starts: tuple[int, ...] = field(default=(), repr=False)

    def around(self, offset: int) -> Iterator[Branch]:
        """The branches that hold the offset, innermost first."""
        index = bisect_right(self._starts, offset) - 1
        while index >= 0:
            branch = self.branches[index]
            if branch.start <= offset < branch.end:
                yield branch
            index = branch.parent

    def group(self, branch: Branch) -> tuple[Branch, ...]:
        """All branches of the branch's group, in order."""
        return tuple(self.branches[index] for index in (*branch.earlier, branch.index, *branch.later))

    def otherwise(self, branch: Branch) -> Branch | None:
        """The ``#else`` of the branch's group."""
        last = self.branches[branch.later[-1]] if branch.later else branch
        return last if last.directive.keyword == "else" and last is not branch else None


def _logical_end(text: str, start: int) -> int:
    """Where the logical line that holds ``start`` ends: at a newline that is neither continued nor in a comment."""
    position = start
    while True:
        newline = text.find("\n", position)
        if newline < 0:
            return len(text)
        comment = text.find("/*", position, newline)
        if comment >= 0 and text.find("//", position, comment) < 0:
            close = text.find("*/", comment + 2)
            if close < 0:
                return len(text)
            position = close + 2
            continue
        last = newline - 2 if text[newline - 1] == "\r" else newline - 1
        if last < start or text[last] != "\\":
            return newline
        position = newline + 1


def _begins_line(text: str, offset: int) -> bool:
    """Whether nothing but blanks and a comment stands before the ``#``."""
    start = text.rfind("\n", max(0, offset - _FARTHEST), offset) + 1
    if start == 0 and offset > _FARTHEST:
        return False
    before = text[start:offset]
    return not before or before.isspace() or _BEFORE.fullmatch(before) is not None


def _directives(text: str, blocks: Blocks) -> Iterator[Directive]:
    line, counted = 1, 0
    found = _HEAD.search(text)
    while found is not None:
        start, argument = found.start(), found.end()
        inside = blocks.holds(start)
        if inside or not _begins_line(text, start):
            found = _HEAD.search(text, inside or argument)
            continue
        end = _logical_end(text, argument)
        raw = text[argument:end]
        if "/" in raw or "\\" in raw:
            raw = _NOISE.sub(lambda noise: " " * len(noise.group()), raw)
        inner = raw.strip()
        left = argument + raw.find(inner) if inner else argument
        line += text.count("\n", counted, start)
        end_line = line + text.count("\n", start, end)
        yield Directive(found.group(1), line, end_line, start, end, " ".join(inner.split()), (left, left + len(inner)))
        counted = start
        found = _HEAD.search(text, end)


def _define(directive: Directive, branch: int) -> Define | None:
    name = _NAME.match(directive.text)
    if name is None:
        return None
    rest = directive.text[name.end() :]
    parameters: tuple[str, ...] | None = None
    if rest.startswith("(") and ")" in rest:
        inside, _, rest = rest[1:].partition(")")
        parameters = tuple(part.strip() for part in inside.split(",") if part.strip())
    return Define(name.group(), parameters, rest.strip(), branch, directive.line, directive.keyword == "undef")


def read(text: str) -> Reading:
    """The directives of a file decoded from Latin-1. Never fails: what is unbalanced is closed at the end and noted."""
    blocks = block_comments(text)
    branches: list[Branch] = []
    defines: list[Define] = []
    errors: list[int] = []
    problems: list[str] = []
    stack: list[list[int]] = []

    def open_branch(directive: Directive, earlier: tuple[int, ...]) -> int:
        parent = stack[-1][-1] if stack else -1
        branches.append(Branch(len(branches), directive, parent, earlier, directive.end))
        return len(branches) - 1

    def close_group(indices: list[int], end: int) -> None:
        branches[indices[-1]].end = end
        for place, index in enumerate(indices):
            branches[index].later = tuple(indices[place + 1 :])

    for directive in _directives(text, blocks):
        keyword = directive.keyword
        if keyword in _OPENING:
            stack.append([open_branch(directive, ())])
        elif keyword == "error":
            errors.append(directive.start)
        elif keyword in {"define", "undef"}:
            found = _define(directive, stack[-1][-1] if stack else -1)
            if found is not None:
                defines.append(found)
        elif not stack:
            problems.append(f"line {directive.line}: #{keyword} without #if")
        elif keyword == "endif":
            close_group(stack.pop(), directive.start)
        else:
            group = stack.pop()
            branches[group[-1]].end = directive.start
            group.append(open_branch(directive, tuple(group)))
            stack.append(group)
    for group in reversed(stack):
        problems.append(f"line {branches[group[0]].directive.line}: #if without #endif")
        close_group(group, len(text))
    starts = tuple(branch.start for branch in branches)
    return Reading(tuple(branches), tuple(defines), tuple(errors), blocks, tuple(problems), starts)


def test_lines(branch: Branch) -> bool:
    """Whether the branch has a condition of its own: everything but ``#else``."""
    return branch.directive.keyword in _OPENING or branch.directive.keyword in _FURTHER
