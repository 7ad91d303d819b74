"""Whether installed files are byte for byte what their RECORD says."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ungate.host import records
from ungate.host.signatures import Signatures

__all__ = ["deviations"]

_SOURCES = (".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hpp", ".inl", ".jinja", ".py", ".so")
_CHUNK = 1024 * 1024
_TASK = 128  # files


def _digest(path: str, algorithm: str) -> str:
    state = hashlib.new(algorithm, usedforsecurity=False)
    # unbuffered, and by plain text: with ten thousand files the interpreter costs more than the hashing
    with open(path, "rb", buffering=0) as stream:  # noqa: PTH123
        while chunk := stream.read(_CHUNK):
            state.update(chunk)
    return base64.urlsafe_b64encode(state.digest()).rstrip(b"=").decode()


def _judge(path: str, field: str) -> str:
    """Why a file is not what RECORD says; empty when it is."""
    algorithm, _, stated = field.partition("=")
    if algorithm not in hashlib.algorithms_available:
        return f"unknown: RECORD gives a {algorithm or 'nameless'} hash, which cannot be computed here"
    try:
        return "" if _digest(path, algorithm) == stated.rstrip("=") else "changed"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        return f"unknown: it could not be read ({error.strerror})"


def _off(root: Path, part: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, reason) for name, field in part if (reason := _judge(f"{root}/{name}", field))]


def _unread(root: Path, checked: Sequence[tuple[str, str]], known: Signatures) -> list[tuple[str, str]]:
    """The rows whose file does not look as it did when it was last read and found to be as recorded."""
    found = []
    for row in checked:
        try:
            state = os.stat(f"{root}/{row[0]}")  # noqa: PTH116
        except OSError:
            found.append(row)
            continue
        if not known.holds(*row, state):
            found.append(row)
    return found


def _learnt(root: Path, part: Sequence[tuple[str, str]], known: Signatures) -> list[tuple[str, str]]:
    """As :func:`_off`, and remembers what is as recorded."""
    found = []
    for name, field in part:
        state = None
        with contextlib.suppress(OSError):
            state = os.stat(f"{root}/{name}")  # noqa: PTH116
        if reason := _judge(f"{root}/{name}", field):
            found.append((name, reason))
        elif state:
            known.learn(name, field, state)
    return found


def _sources(root: Path, tops: Sequence[str]) -> Iterator[str]:
    """Source files below the top-level names, relative to the root, without following links to folders."""
    waiting = [top for top in reversed(tops) if (root / top).is_dir()]
    while waiting:
        folder = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(f"{root}/{folder}") as listing:
            inner = []
            for entry in sorted(listing, key=lambda each: each.name):
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        inner.append(f"{folder}/{entry.name}")
                elif entry.name.endswith(_SOURCES):
                    yield f"{folder}/{entry.name}"
            waiting += reversed(inner)


def _compared(root: Path, checked: Sequence[tuple[str, str]], known: Signatures | None) -> list[tuple[str, str]]:
    if not checked:
        return []
    from concurrent.futures import ThreadPoolExecutor  # a fortieth of a second that only this function needs

    # a task a file would cost more than hashing it
    parts = [checked[start : start + _TASK] for start in range(0, len(checked), _TASK)]
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        answers = pool.map(lambda part: _learnt(root, part, known) if known else _off(root, part), parts)
        return [hit for hits in answers for hit in hits]


def deviations(
    root: Path, tops: Sequence[str], info: Path, others: Sequence[Path], *, remembered: bool = False
) -> tuple[tuple[str, str], ...]:
    """(file relative to ``root``, reason) for each file that is not as recorded; reasons are words that begin with
    ``changed``, ``missing``, ``extra`` (a source file that no RECORD lists) or ``unknown``.

    ``others`` are the ``.dist-info`` folders beside ``info``: two distributions may own one file or one folder.
    With ``remembered``, a file that looks to ``stat`` as it did when it was last found to be as recorded is not read
    again (:mod:`ungate.host.signatures`).
    """
    listed = records.rows(info)
    if not listed:
        return ((f"{info.name}/RECORD", "unknown: RECORD is missing or cannot be read, so nothing can be compared"),)
    checked = [(name, field) for name, field in listed.items() if field and not name.startswith(("../", "/"))]
    known = Signatures(info) if remembered else None
    if known:
        checked = _unread(root, checked, known)
    found = _compared(root, checked, known)
    if known:
        known.save(info)
    extra = [name for name in _sources(root, tops) if name not in listed]
    if extra or found:
        shared = [(other, records.rows(other)) for other in others if other != info]
        extra = [name for name in extra if not any(name in rows for _, rows in shared)]
        for place, (name, reason) in enumerate(found):
            for other, rows in shared:
                if reason == "changed" and rows.get(name) and not _judge(f"{root}/{name}", rows[name]):
                    found[place] = (name, f"changed: it is the file of {other.name}, which lists it too")
    return (*found, *((name, "extra: no RECORD lists this source file") for name in extra))
