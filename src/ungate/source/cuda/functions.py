"""Which function or kernel of a C++ or CUDA file holds a byte, found by its braces.

A brace that opens in one branch of an ``#if`` and closes in another would unbalance a plain count, so the depth
at the ``#if`` is restored at each ``#else`` and ``#elif``. Macros that write whole functions are not expanded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Function", "Functions", "functions"]

_TOKEN = re.compile(
    r'//(?:\\\r?\n|[^\n])*|/\*[\s\S]*?(?:\*/|\Z)|R"([^()\\ ]{0,16})\([\s\S]*?\)\1"'
    r'|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n]){1,8}\''
    r"|^[ \t]*#[ \t]*([a-z]+)(?:\\\r?\n|[^\n])*|[{};]",
    re.MULTILINE,
)
_NOISE = re.compile(r'//[^\n]*|/\*[\s\S]*?\*/|"(?:\\.|[^"\\\n])*"?|^[ \t]*#(?:\\\r?\n|[^\n])*', re.MULTILINE)
_NO_NAMES = (
    "if for while switch catch return sizeof decltype alignas alignof noexcept requires static_assert defined throw asm"
    " explicit constexpr else do new delete __attribute__ __launch_bounds__ __declspec __asm__ __cluster_dims__ __align__"
    " __maxnreg__ __block_size__"
)
_CONTROL = frozenset(_NO_NAMES.split())
_CALLED = re.compile(
    r"((?:[A-Za-z_]\w*(?:<[^<>;{}]*>)?\s*::\s*)*(?:operator\s*(?:\(\s*\)|\[\s*\]|[^\s\w(]{1,3}|\w+)|~?[A-Za-z_]\w*))\s*\("
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
    for match in _CALLED.finditer(head):
        name = re.sub(r"\s+", "", match.group(1))
        before = head[: match.start()]
        if name in _CONTROL or before.count("(") != before.count(")") or before.endswith(("=", ".", "->")):
            continue
        if re.search(r"(?<![=!<>])=(?!=)", re.sub(r"<[^<>]*>|\([^()]*\)", "", before)) and "operator" not in name:
            return None
        if re.fullmatch(r"[A-Z][A-Z0-9_]*", name) and _CALLED.search(head, match.end()):
            continue  # a macro such as an attribute before the real name
        return name, head
    return None


def _walk(text: str) -> Iterator[Function]:
    depth_of_function = -1
    stack: list[str] = []
    saved: list[tuple[list[str], int]] = []
    begin = 0
    current: tuple[str, str, int, int] | None = None
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        keyword = token.group(2)
        if keyword is not None:
            if keyword.startswith("if"):
                saved.append((stack.copy(), begin))
            elif keyword in {"else", "elif"} and saved:
                kept, begin = saved[-1]
                stack = kept.copy()
            elif keyword == "endif" and saved:
                saved.pop()
            if current is None and not stack:
                begin = max(begin, token.end()) if keyword in {"include", "pragma", "define", "undef"} else begin
            if current is not None and len(stack) <= depth_of_function:
                stack = stack + ["{"] * (depth_of_function + 1 - len(stack))
            continue
        if mark == "{":
            if current is None:
                found = _head_of(text, begin, token.start())
                if found is not None:
                    lead = begin + len(text[begin : token.start()]) - len(text[begin : token.start()].lstrip())
                    current = (*found, lead, token.start())
                    depth_of_function = len(stack)
                else:
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
    if current is not None:
        name, head, start, opened = current
        yield Function(name, start, opened, len(text), head)


def functions(text: str) -> Functions:
    """Every outermost function with a body in a file decoded from Latin-1."""
    found = tuple(_walk(text))
    return Functions(found, tuple(each.start for each in found))
