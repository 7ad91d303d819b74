"""Answers of earlier scans, for files that have not changed since.

An answer belongs to the packages' files by path, size, modification and change time, and to the code of the
scanner itself. With and without the gates of third-party trees are two answers.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import ungate
from ungate.host.folders import cache_dir
from ungate.host.keeping import unkept
from ungate.model import ArchSet, Form, Gate, ScanResult, Sense, Unread
from ungate.scan.select import Source

__all__ = ["key", "load", "store"]

_KEPT = 32
"""Answers that are kept; the oldest make room."""


@cache
def _scanner() -> bytes:
    """A digest of the code that makes the answer: another version must not be answered by this one's cache."""
    root = Path(ungate.__file__).parent
    digest = hashlib.sha256()
    for folder in ("scan", "source"):
        for base, _, names in sorted(os.walk(root / folder)):
            for name in sorted(names):
                if name.endswith((".py", ".json")):
                    found = os.stat(f"{base}/{name}")  # noqa: PTH116 - called for every file on every start
                    digest.update(f"{name}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.digest()


def key(sources: Sequence[Source], *, vendored: bool, files: frozenset[str] | None = None) -> str:
    """The name under which an answer for these files is kept; with ``files`` that for the gates of a few of them."""
    digest = hashlib.sha256(_scanner())
    if files is not None:
        digest.update("\n".join(sorted(files)).encode("utf-8", "surrogateescape") + b"\0few\n")
    digest.update(b"vendored\n" if vendored else b"own\n")
    digest.update(
        "\n".join(f"{each.root}\0{each.file}\0{each.package}\0{each.version}\0{each.stamp}" for each in sources).encode(
            "utf-8", "surrogateescape"
        )
    )
    return digest.hexdigest()[:32]


_PLAIN = (
    *("id", "pattern", "package", "version", "file", "line", "end_line", "kind", "condition", "role", "span"),
    *("symbol", "names", "vendored", "note"),
)


def _row(gate: Gate) -> tuple[Any, ...]:
    passes = (tuple(gate.passes.yes), tuple(gate.passes.unknown))
    return (*(getattr(gate, name) for name in _PLAIN), *passes, gate.form.value, gate.sense.value)


def _gate(row: tuple[Any, ...], forms: dict[str, Form], senses: dict[str, Sense]) -> Gate:
    *plain, yes, unknown, form, sense = row
    passes = ArchSet(frozenset(yes), frozenset(unknown))
    return Gate(**dict(zip(_PLAIN, plain, strict=True)), passes=passes, form=forms[form], sense=senses[sense])


def _folder() -> Path:
    return cache_dir() / "scan"


def load(name: str) -> ScanResult | None:
    """The kept answer, or None. A damaged file counts as none."""
    try:
        kept = marshal.loads((_folder() / f"{name}.answer").read_bytes())
        forms = {form.value: form for form in Form}
        senses = {sense.value: sense for sense in Sense}
        return ScanResult(
            gates=tuple(_gate(row, forms, senses) for row in kept["gates"]),
            unread=tuple(Unread(*each) for each in kept["unread"]),
            files=kept["files"],
            read=0,
            cached=kept["files"],
            vendored=kept["vendored"],
        )
    except (OSError, ValueError, EOFError, TypeError, KeyError):
        return None


def _write(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def store(name: str, answer: ScanResult) -> None:
    """Keep an answer; a cache folder that cannot be written is no error, the next scan just reads again."""
    folder = _folder()
    kept = {
        "gates": [_row(gate) for gate in answer.gates],
        "unread": [(each.file, each.reason) for each in answer.unread],
        "files": answer.files,
        "vendored": answer.vendored,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / f"{name}.answer", marshal.dumps(kept))
        older = sorted(folder.glob("*.answer"), key=lambda path: path.stat().st_mtime)
        for old in older[:-_KEPT]:
            old.unlink(missing_ok=True)
    except OSError as error:
        unkept(error)
