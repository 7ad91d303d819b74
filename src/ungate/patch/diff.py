"""The series as a unified diff that ``git apply`` takes at the root of the packages."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ungate.host.packages import Package
from ungate.model import Series
from ungate.patch.content import changed

__all__ = ["file_diff", "unified"]


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "surrogateescape")
    # only \n ends a line for diff and git; form feeds and lone carriage returns stay inside theirs
    lines = text.split("\n")
    kept = [line + "\n" for line in lines[:-1]]
    return [*kept, lines[-1]] if lines[-1] else kept


def file_diff(file: str, before: bytes, after: bytes, context: int = 3) -> str:
    """The diff of one file with ``a/`` and ``b/`` paths; empty where nothing differs."""
    if before == after:
        return ""
    made = difflib.unified_diff(_lines(before), _lines(after), f"a/{file}", f"b/{file}", n=context)
    out = []
    for line in made:
        out.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return f"diff --git a/{file} b/{file}\n" + "".join(out)


def _ordered(contents: Mapping[str, tuple[Path, bytes, bytes]]) -> Iterator[str]:
    for file, (_, before, after) in sorted(contents.items()):
        yield file_diff(file, before, after)


def unified(series: Series, packages: Sequence[Package]) -> str:
    """The whole series; Refusal where an installed file is not what the series was made for."""
    return "".join(_ordered(changed(series, packages)))
