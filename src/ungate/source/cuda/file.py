"""One C, C++ or CUDA file as the gate patterns look at it."""

from __future__ import annotations

import functools
from bisect import bisect_right
from dataclasses import dataclass

from ungate.source.cuda.comments import in_line_comment_or_string
from ungate.source.cuda.conditions import Conditions
from ungate.source.cuda.directives import Reading, read
from ungate.source.cuda.functions import Functions, Locator, functions

__all__ = ["CudaFile"]


@dataclass(frozen=True)
class CudaFile:
    """``text`` is the content decoded from Latin-1: an offset in it is a byte offset in the file."""

    file: str
    text: str
    conditions: Conditions

    @functools.cached_property
    def reading(self) -> Reading:
        """The directives and their nesting."""
        return read(self.text)

    @functools.cached_property
    def functions(self) -> Functions:
        """The functions with a body."""
        return functions(self.text)

    @functools.cached_property
    def _locator(self) -> Locator:
        return Locator(self.text)

    @functools.cached_property
    def _newlines(self) -> tuple[int, ...]:
        offsets, position = [], self.text.find("\n")
        while position >= 0:
            offsets.append(position)
            position = self.text.find("\n", position + 1)
        return tuple(offsets)

    def line(self, offset: int) -> int:
        """The 1-based line of a byte offset."""
        return bisect_right(self._newlines, offset - 1) + 1 if offset else 1

    def symbol(self, offset: int) -> str:
        """The name of the function or kernel that holds the offset, empty outside of functions."""
        found = self._locator.at(offset)
        return found.name if found else ""

    def code(self, offset: int) -> bool:
        """Whether the offset is code: in no comment, string or directive of its own."""
        return not self.reading.blocks.holds(offset) and not in_line_comment_or_string(self.text, offset)
