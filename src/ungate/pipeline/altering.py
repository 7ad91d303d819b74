"""A series with one thing changed: the edits of a file left out, or a call passes another literal."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from ungate.errors import Refusal
from ungate.host.packages import Package
from ungate.model import Edit, Series
from ungate.patch.content import apply, digest, root_of, sha256

__all__ = ["with_keywords", "without"]


def without(series: Series, file: str, packages: Sequence[Package]) -> Series:
    """The series without the edits of one file."""
    return _of(series, [edit for edit in series.edits if edit.file != file], packages)


def with_keywords(series: Series, file: str, keywords: Mapping[str, bool | int], packages: Sequence[Package]) -> Series:
    """The series that also gives literal keyword arguments of ``file`` other values, wherever a call passes them.

    Refusal where the file is in none of the packages, or passes a keyword nowhere as a literal.
    """
    data = _content(file, packages)
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    made: list[Edit] = []
    found: set[str] = set()
    for node in ast.walk(ast.parse(data)):
        if not isinstance(node, ast.keyword) or not isinstance(node.value, ast.Constant):
            continue
        name, value = node.arg or "", node.value
        if name not in keywords:
            continue
        assert value.end_lineno is not None and value.end_col_offset is not None
        start, end = starts[value.lineno - 1] + value.col_offset, starts[value.end_lineno - 1] + value.end_col_offset
        found.add(name)
        made.append(
            Edit(
                file,
                start,
                end,
                data[start:end],
                repr(keywords[name]).encode(),
                why=f"passes {name} = {keywords[name]}",
            )
        )
    if missing := keywords.keys() - found:
        raise Refusal(
            f"{file} passes {', '.join(sorted(missing))} nowhere as a literal.",
            "Correct 'keywords' of the ablation in the recipe.",
        )
    return _of(series, [*series.edits, *made], packages)


def _content(file: str, packages: Sequence[Package]) -> bytes:
    package = root_of(packages, "", file)
    if package is None:
        raise Refusal(f"{file} is in none of the packages.", "Correct 'file' of the ablation in the recipe.")
    return (package.root / file).read_bytes()


def _of(series: Series, edits: Sequence[Edit], packages: Sequence[Package]) -> Series:
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for file in sorted({edit.file for edit in edits}):
        data = _content(file, packages)
        before[file] = sha256(data)
        after[file] = sha256(apply(data, [edit for edit in edits if edit.file == file]))
    ordered = tuple(sorted(edits, key=lambda edit: (edit.file, edit.start, edit.end)))
    return Series(series.name, series.target, ordered, before, after, series.refused, digest(ordered, before))
