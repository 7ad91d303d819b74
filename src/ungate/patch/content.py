"""Bytes in, bytes out: applying edits, with the hash that a file must have before and after."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ungate.errors import Refusal
from ungate.host.packages import Package
from ungate.model import Edit, Series

__all__ = ["apply", "by_file", "changed", "digest", "root_of", "sha256"]


def sha256(data: bytes) -> str:
    """Hex digest, as in ``Series.before`` and ``Series.after``."""
    return hashlib.sha256(data).hexdigest()


def apply(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Replace the edits' spans; each span must still hold ``old`` and none may overlap. ValueError otherwise."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        if edit.start < at or data[edit.start : edit.end] != edit.old:
            raise ValueError(f"{edit.file}: bytes {edit.start}..{edit.end} are not what the edit was made for")
        parts += [data[at : edit.start], edit.new]
        at = edit.end
    return b"".join([*parts, data[at:]])


def by_file(edits: Iterable[Edit]) -> dict[str, list[Edit]]:
    """The edits of each file, in the order of their places; insertions at one place stay in the series' order."""
    files: dict[str, list[Edit]] = {}
    for edit in edits:
        files.setdefault(edit.file, []).append(edit)
    return {file: sorted(some, key=lambda e: (e.start, e.end)) for file, some in sorted(files.items())}


def digest(edits: Iterable[Edit], before: Mapping[str, str]) -> str:
    """The identity of a series: sha256 over what it changes, whatever it is called."""
    rows = [
        [file, before[file], [[e.start, e.end, e.new.decode("utf-8", "surrogateescape")] for e in some]]
        for file, some in by_file(edits).items()
    ]
    return sha256(json.dumps(rows, separators=(",", ":")).encode())


def root_of(packages: Sequence[Package], name: str, file: str) -> Package | None:
    """The package that holds ``file``: the named one if it has it, else any that has."""
    named = [p for p in packages if p.name.lower().replace("_", "-") == name.lower().replace("_", "-")]
    return next((p for p in (*named, *packages) if (p.root / file).is_file()), None)


def changed(series: Series, packages: Sequence[Package]) -> dict[str, tuple[Path, bytes, bytes]]:
    """For each file of the series: its path, its content before and after.

    Refusal where a file is missing or is not what the series was made for: then nothing is returned at all.
    """
    found: dict[str, tuple[Path, bytes, bytes]] = {}
    for file, edits in by_file(series.edits).items():
        package = root_of(packages, "", file)
        if package is None:
            raise Refusal(
                f"The series '{series.name}' changes {file}, which is in none of the packages.",
                "Name the environment that holds it: ungate patch diff RECIPE --site DIR",
            )
        path = package.root / file
        data = path.read_bytes()
        if sha256(data) != series.before[file]:
            raise Refusal(
                f"{path} is not the file that the series '{series.name}' was made for (its sha256 differs).",
                "Make the series again from what is installed: ungate patch diff RECIPE",
            )
        after = apply(data, edits)
        if sha256(after) != series.after[file]:
            raise Refusal(
                f"The edits of '{series.name}' do not give the content that it names for {file}.",
                "Make the series again: ungate patch diff RECIPE",
            )
        found[file] = (path, data, after)
    return found
