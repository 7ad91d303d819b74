"""Which function or kernel of a C++ or CUDA file holds a byte, found by its braces.

A brace that opens in one branch of an ``#if`` and closes in another would unbalance a plain count, so the depth
at the ``#if`` is restored at each ``#else`` and ``#elif``. Macros that write whole functions are not expanded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Function", "Functions", "Locator", "functions"]

_TOKEN = re.compile(
    r'//(?:\\\r?\n|[^\n])*|/\*[\s\S]*?(?:\*/|\Z)|R"([^()\\ ]{0,16})\([\s\S]*?\)\1"'
    r'|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n]){1,8}\''
    r"|^[ \t]*#[ \t]*([a-z]+)(?:\\\r?\n|[^\n])*|[{};]",
    re.MULTILINE,
)
_NOISE = re.compile(r'//[^\n]*|/\*[\s\S]*?\*/|"(?:\\.|[^"\\\n])*"?|^[ \t]*#(?:\\\r?\n|[^\n])*', re.MULTILINE)
_NO_NAMES = (
    "if for while switch catch return sizeof decltype alignas alignof noexcept requires static_assert defined throw asm"
    " explicit constexpr else do new delete __attribute__ __launch_bounds__ __declspec __asm__ __cluster_dims__"
    " __align__ __maxnreg__ __block_size__"
)
_CONTROL = frozenset(_NO_NAMES.split())
_PAREN = re.compile(r"[()]")
_SHOUTS = re.compile(r"[A-Z][A-Z0-9_]*")  # a macro such as an attribute before the real name
_ASSIGNS = re.compile(r"[\w\]>)] = [^,>]*$")
_CLOSED = re.compile(r"\n\}")
_BLANK = re.compile(
    r"\s+|(?:public|private|protected)\s*:(?!:)|//[^\n]*|/\*[\s\S]*?\*/|^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE
)
_LONGEST_HEAD = 4000


@dataclass(frozen=True, slots=True)
class Function:
    """A function with a body: bytes [start, end) of its head and body, [open, end) of its body with braces."""

    name: str
    start: int
    open: int
    end: int
    head: str

    @property
    def kernel(self) -> bool:
        """Whether the device is launched on it."""
        return "__global__" in self.head


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of one file, outermost only, in order."""

    items: tuple[Function, ...]
    _starts: tuple[int, ...]

    def at(self, offset: int) -> Function | None:
        """The function whose head or body holds the offset."""
        place = bisect_right(self._starts, offset) - 1
        if place >= 0 and offset < self.items[place].end:
            return self.items[place]
        return None


def _head_of(text: str, start: int, brace: int) -> tuple[str, str] | None:
    """Name and head of the function whose body opens at ``brace``; None where it opens something else."""
    raw = text[max(start, brace - _LONGEST_HEAD) : brace]
    head = " ".join(_NOISE.sub(" ", raw).split())
    if "(" not in head or head.endswith(("=", ",", "(", "return", "&&", "||")):
        return None
    depth = 0
    name = ""
    for mark in _PAREN.finditer(head):
        if mark.group() == ")":
            depth -= 1
            continue
        depth += 1
        if depth != 1:
            continue
        before = head[: mark.start()].rstrip()
        word = _word_before(before)
        if not word or word in _CONTROL:
            if before.endswith(("=", "]")):
                return None  # an initialiser or a lambda
            continue
        if name and not _SHOUTS.fullmatch(name):
            break  # a member initialiser after the parameters
        if before.endswith("=" + word) or _ASSIGNS.search(before):
            return None
        name = "operator()" if word.endswith("operator") else word
        if name == "operator()":
            break
    return (name, head) if name else None


def _word_before(before: str) -> str:
    """The name, with its qualification, at the end of ``before``."""
    position = len(before)
    while position and (before[position - 1].isalnum() or before[position - 1] in "_:~"):
        position -= 1
    word = before[position:].strip(":")
    if not word:
        operator = before.rfind("operator", max(0, len(before) - 14))  # operator+ and its like
        return "".join(before[operator:].split()) if operator >= 0 else ""
    return "" if word[0].isdigit() else word


def _quick_end(text: str, start: int, brace: int) -> int:
    """Where the function ends if it is laid out as usual: a closing brace in the column of its head; 0 if not so."""
    newline = text.find("\n", brace)
    same_line = text.rfind("}", brace, newline if newline >= 0 else len(text))
    if same_line > brace and text.count("{", brace, same_line + 1) == text.count("}", brace, same_line + 1):
        return same_line + 1
    line = text.rfind("\n", 0, start) + 1
    indent = text[line:start]
    if indent.strip():
        return 0
    closing = f"\n{indent}}}"
    position = text.find(closing, brace)
    if position < 0:
        return 0
    end = position + len(closing)
    # Braces that do not balance are those of the branches of an #if: then the layout is the better witness.
    balanced = text.count("{", brace, end) == text.count("}", brace, end)
    return end if balanced or "\n#" in text[brace:end] or " #if" in text[brace:end] else 0


def _walk(text: str, begin: int = 0) -> Iterator[Function]:
    depth_of_function = -1
    stack: list[str] = []
    saved: list[tuple[list[str], int]] = []
    current: tuple[str, str, int, int] | None = None
    token = _TOKEN.search(text, begin)
    while token is not None:
        mark = text[token.start()]
        keyword = token.group(2)
        resume = token.end()
        if keyword is not None:
            if keyword.startswith("if"):
                saved.append((stack.copy(), begin))
            elif keyword in {"else", "elif"} and saved:
                kept, begin = saved[-1]
                stack = kept.copy()
            elif keyword == "endif" and saved:
                saved.pop()
            if current is None and not stack and keyword in {"include", "pragma", "define", "undef"}:
                begin = max(begin, token.end())
            if current is not None and len(stack) <= depth_of_function:
                stack = stack + ["{"] * (depth_of_function + 1 - len(stack))
        elif mark == "{":
            found = _head_of(text, begin, token.start()) if current is None else None
            if found is not None:
                lead = _lead(text, begin, token.start())
                end = _quick_end(text, lead, token.start())
                if end:
                    yield Function(found[0], lead, token.start(), end, found[1])
                    begin = resume = end
                else:
                    current = (*found, lead, token.start())
                    depth_of_function = len(stack)
                    stack.append("{")
            else:
                if current is None:
                    begin = token.end()
                stack.append("{")
        elif mark == "}":
            if stack:
                stack.pop()
            if current is not None and len(stack) <= depth_of_function:
                name, head, start, opened = current
                yield Function(name, start, opened, token.end(), head)
                current = None
            if current is None:
                begin = token.end()
        elif mark == ";" and current is None:
            begin = token.end()
        token = _TOKEN.search(text, resume)
    if current is not None:
        name, head, start, opened = current
        yield Function(name, start, opened, len(text), head)


def _lead(text: str, begin: int, brace: int) -> int:
    """Where the head begins: after blank space and comments."""
    position = begin
    while (blank := _BLANK.match(text, position, brace)) is not None and blank.end() > position:
        position = blank.end()
    return position


def functions(text: str) -> Functions:
    """Every outermost function with a body in a file decoded from Latin-1."""
    found = tuple(_walk(text))
    return Functions(found, tuple(each.start for each in found))


class Locator:
    """Answers which function holds an offset, walking only as far as it must.

    It starts at the last brace that closes in the first column before the offset: between two of these lies one
    function, or one class with its methods.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._closed = [0, *(found.start() for found in _CLOSED.finditer(text))]
        self._regions: dict[int, tuple[list[Function], Iterator[Function]]] = {}

    def at(self, offset: int) -> Function | None:
        """The function whose head or body holds the offset."""
        closed = self._closed[bisect_right(self._closed, max(0, offset - 2)) - 1]
        if closed not in self._regions:
            self._regions[closed] = ([], _walk(self._text, closed + 2 if closed else 0))
        seen, further = self._regions[closed]
        if not seen or seen[-1].end <= offset:
            for found in further:
                seen.append(found)
                if found.end > offset:
                    break
        for found in reversed(seen):
            if found.start <= offset:
                return found if offset < found.end else None
        return None
