"""Answers of earlier scans, for files that have not changed since.

An answer belongs to the packages' files by path, size, modification and change time, and to the code of the
scanner itself. Gates of third-party trees lie in a second part, which is read only when they are asked for.
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


def key(sources: Sequence[Source]) -> str:
    """The name under which an answer for these files is kept."""
    digest = hashlib.sha256(_scanner())
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


def load(name: str, *, vendored: bool) -> ScanResult | None:
    """The kept answer, or None. A damaged file counts as none."""
    folder = _folder()
    try:
        head = marshal.loads((folder / f"{name}.own").read_bytes())
        rows = head["gates"]
        if vendored:
            rows = rows + marshal.loads((folder / f"{name}.vendored").read_bytes())
    except (OSError, ValueError, EOFError, TypeError, KeyError):
        return None
    forms = {form.value: form for form in Form}
    senses = {sense.value: sense for sense in Sense}
    gates = [_gate(row, forms, senses) for row in rows]
    if vendored:
        gates.sort(key=lambda gate: (gate.file, gate.line))
    return ScanResult(
        gates=tuple(gates),
        unread=tuple(Unread(*each) for each in head["unread"]),
        files=head["files"],
        read=0,
        cached=head["files"],
        vendored=0 if vendored else head["vendored"],
    )


def _write(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise


def store(name: str, gates: Sequence[Gate], unread: Sequence[Unread], files: int) -> None:
    """Keep an answer; a cache folder that cannot be written is no error, the next scan just reads again."""
    folder = _folder()
    own = [_row(gate) for gate in gates if not gate.vendored]
    foreign = [_row(gate) for gate in gates if gate.vendored]
    head = {
        "gates": own,
        "unread": [(each.file, each.reason) for each in unread],
        "files": files,
        "vendored": len(foreign),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / f"{name}.vendored", marshal.dumps(foreign))
        _write(folder / f"{name}.own", marshal.dumps(head))
        kept = sorted(folder.glob("*.own"), key=lambda path: path.stat().st_mtime)
        for old in kept[:-_KEPT]:
            old.with_suffix(".vendored").unlink(missing_ok=True)
            old.unlink(missing_ok=True)
    except OSError:
        return
