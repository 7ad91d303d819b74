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
    """``text`` is the content decoded from Latin-1: an offset in it is a byte offset in the file.

    ``host`` says whether a word occurs by which host code or build flags speak of an architecture.
    """

    file: str
    text: str
    conditions: Conditions
    host: bool = True

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

    @functools.cached_property
    def _directives(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        found = [branch.directive for branch in self.reading.branches]
        return tuple(each.start for each in found), tuple(each.end for each in found)

    def skip(self, offset: int) -> int:
        """The end of the comment, string or conditional directive that holds the offset; 0 where it is code."""
        starts, ends = self._directives
        place = bisect_right(starts, offset) - 1
        if place >= 0 and offset < ends[place]:
            return ends[place]
        return self.reading.blocks.holds(offset) or (offset + 1 if in_line_comment_or_string(self.text, offset) else 0)
