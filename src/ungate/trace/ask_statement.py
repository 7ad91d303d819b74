"""Answers to a traceback that ends in no message: the ``assert`` or ``raise`` that it shows, found in the code.

::

    File "/opt/engine/layers/fp8.py", line 788, in __init__
      assert is_sm100_supported() or is_sm90_supported()
    AssertionError

Line numbers differ from release to release, so the statement is looked for by its text; the file, the function and then
the line that the traceback names choose among several.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ungate.trace.chain import Trace
from ungate.trace.corpus import aside
from ungate.trace.message import Raised

__all__ = ["statements"]

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<name>\S+))?')
_STATEMENT = re.compile(r"(?:assert|raise)\b.{6,}")
_MOST = 40  # places of a statement; one with more is too common to tell anything


@dataclass(frozen=True, slots=True)
class _Shown:
    """A statement as a traceback shows it; the frame's words are empty where the text holds the statement alone."""

    code: str
    file: str = ""
    line: int = 0
    name: str = ""


def statements(trace: Trace, text: str) -> tuple[Raised, ...]:
    """The statements of the packages that the innermost frame with an ``assert`` or ``raise`` shows, the likeliest
    first; empty where the text shows none or no package holds it."""
    for shown in reversed(list(_shown(text))):
        found = sorted(_places(trace, shown), key=lambda each: each[0])
        if found and len(found) <= _MOST:
            return tuple(hit for rank, hit in found if rank[:2] == found[0][0][:2])
    return ()


def _shown(text: str) -> Iterator[_Shown]:
    frame: re.Match[str] | None = None
    for line in text.splitlines():
        if found := _FRAME.search(line):
            frame = found
        elif found := _STATEMENT.search(line):
            # A log may stand before it on the line, never a word of the sentence it would be part of.
            if not re.search(r"[A-Za-z]\s*$", line[: found.start()]):
                code = found.group().strip()
                yield (
                    _Shown(code, frame["file"].replace("\\", "/"), int(frame["line"]), frame["name"] or "")
                    if frame
                    else _Shown(code)
                )
            frame = None


def _places(trace: Trace, shown: _Shown) -> Iterator[tuple[tuple[int, bool, int], Raised]]:
    """((path components that differ, whether the function differs, lines between), statement) of each place."""
    corpus = trace.corpus
    for count, (file, offset) in enumerate(corpus.places(shown.code, whole=False)):
        if count > _MOST:
            return
        line = corpus.line(file, offset)
        module = None if aside(file) else trace.graph.names.file(file)
        if module is None:
            continue
        scope = module.at(line)
        if any(isinstance(node, ast.Assert | ast.Raise) and node.lineno == line for node in ast.walk(scope.node)):
            differs = bool(shown.name) and scope.name.rpartition(".")[2] != shown.name
            rank = (-_alike(file, shown.file), differs, abs(line - shown.line))
            yield rank, Raised(scope, line, line, {}, len(shown.code), True)


def _alike(file: str, shown: str) -> int:
    """How many of the last components two paths share."""
    pairs = zip(reversed(file.split("/")), reversed(shown.split("/")), strict=False)
    return next((index for index, (own, other) in enumerate(pairs) if own != other), len(file.split("/")))
