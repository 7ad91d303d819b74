"""Where the comments and strings of a C or C++ file are, found without looking at every character.

Files are handled as text decoded from Latin-1, so that an offset in the text is a byte offset in the
file whatever its real encoding.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

__all__ = ["Blocks", "blank", "block_comments", "in_line_comment_or_string"]

_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n]){1,8}\'|//(?:\\\r?\n|[^\n])*|/\*')
_BLANKED = re.compile(r'"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n]){1,8}\'|//(?:\\\r?\n|[^\n])*|/\*[\s\S]*?(?:\*/|\Z)')
_LOOK_BACK = 2000  # how far before an offset its line is looked at: keeps a file of one 10 MB line linear


@dataclass(frozen=True, slots=True)
class Blocks:
    """The block comments of one file as sorted, disjoint ranges [start, end)."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def holds(self, offset: int) -> int:
        """The end of the comment that holds the offset, 0 where none does."""
        place = bisect_right(self.starts, offset) - 1
        if place >= 0 and offset < self.ends[place]:
            return self.ends[place]
        return 0


def _line_start(text: str, offset: int, floor: int = 0) -> int:
    floor = max(floor, offset - _LOOK_BACK, 0)
    return max(text.rfind("\n", floor, offset) + 1, floor)


def block_comments(text: str) -> Blocks:
    """The block comments; one that is never closed reaches to the end of the file."""
    starts, ends = [], []
    position = 0
    while (found := text.find("/*", position)) >= 0:
        line = _line_start(text, found, position)
        lead = text[line:found]
        if '"' in lead or "'" in lead or "//" in lead:
            token = _TOKEN.search(text, line)
            while token is not None and token.end() <= found:
                token = _TOKEN.search(text, token.end())
            if token is not None and token.start() < found:  # inside a string or a line comment
                position = max(token.end(), found + 2)
                continue
        close = text.find("*/", found + 2)
        position = len(text) if close < 0 else close + 2
        starts.append(found)
        ends.append(position)
    return Blocks(tuple(starts), tuple(ends))


def in_line_comment_or_string(text: str, offset: int) -> bool:
    """Whether the offset lies in a ``//`` comment or a string, judged from its own line alone."""
    start = _line_start(text, offset)
    lead = text[start:offset]
    if '"' not in lead and "//" not in lead:
        return False
    token = _TOKEN.search(text, start)
    while token is not None and token.start() < offset:
        if token.end() > offset and token.group() != "/*":
            return True
        token = _TOKEN.search(text, token.end())
    return False


def _spaces(match: re.Match[str]) -> str:
    return "\n".join([" " * len(line) for line in match.group().split("\n")])


def blank(text: str) -> str:
    """The text with comments, strings and character literals replaced by spaces of the same length."""
    return _BLANKED.sub(_spaces, text)
