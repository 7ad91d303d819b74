"""Reading and applying unified diffs, strictly: every line of context must be where the hunk says, byte for byte."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ungate.errors import Refusal
from ungate.model import Edit

__all__ = ["FilePatch", "Hunk", "apply", "edits_between", "parse"]

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_UNSUPPORTED = re.compile(
    rb"(GIT binary patch|Binary files |rename from |copy from |new file mode |deleted file mode |old mode )"
)


@dataclass(frozen=True, slots=True)
class Hunk:
    """``line`` is the 1-based line of the old file where ``old`` begins; lines keep their ends."""

    line: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The hunks for one file; ``path`` as the patch names it, without ``a/`` and ``b/``."""

    path: str
    hunks: tuple[Hunk, ...]


def _bad(line: int, why: str) -> Refusal:
    return Refusal(
        f"Line {line} of the patch {why}; nothing was changed.",
        "Make the patch with: git diff --no-ext-diff --no-renames > FILE.patch",
    )


def _lines(data: bytes) -> list[bytes]:
    pieces = data.split(b"\n")
    return [piece + b"\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _path(header: bytes, number: int) -> str:
    name = header[4:].split(b"\t")[0].rstrip(b"\r\n").decode("utf-8", "replace").strip()
    if name.startswith('"'):
        raise _bad(number, "names a file with odd characters, which is not supported")
    return name


def parse(data: bytes) -> tuple[FilePatch, ...]:
    """The files of a unified diff; Refusal, with the line, for what is not one or does more than change lines."""
    lines = _lines(data)
    found: list[FilePatch] = []
    at = 0
    while at < len(lines):
        if match := _UNSUPPORTED.match(lines[at]):
            what = match[1].decode().strip()
            raise _bad(at + 1, f"says '{what}', but a series only changes lines of files that are there")
        if not lines[at].startswith(b"--- "):
            at += 1
            continue
        if at + 1 >= len(lines) or not lines[at + 1].startswith(b"+++ "):
            raise _bad(at + 1, "begins a file and names no second one")
        old, new = _path(lines[at], at + 1), _path(lines[at + 1], at + 2)
        if "/dev/null" in (old, new):
            raise _bad(at + 1, "adds or removes a file, but a series only changes lines of files that are there")
        stripped = [name[2:] if name[:2] in ("a/", "b/") else name for name in (old, new)]
        if stripped[0] != stripped[1]:
            raise _bad(at + 1, f"renames {stripped[0]} to {stripped[1]}, which is not supported")
        at += 2
        hunks = []
        while at < len(lines) and lines[at].startswith(b"@@"):
            hunk, at = _hunk(lines, at)
            hunks.append(hunk)
        if not hunks:
            raise _bad(at, f"names {stripped[0]} and changes nothing in it")
        found.append(FilePatch(stripped[1], tuple(hunks)))
    if not found:
        raise _bad(1, "is not the beginning of a unified diff, nor is any other line")
    paths = [each.path for each in found]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise _bad(1, f"belongs to a patch that names {twice} twice")
    return tuple(found)


def _hunk(lines: list[bytes], at: int) -> tuple[Hunk, int]:
    header = _HUNK.match(lines[at])
    if header is None:
        raise _bad(at + 1, "is no hunk header")
    first = at
    start, olds, news = int(header[1]), int(header[2] or 1), int(header[4] or 1)
    old: list[bytes] = []
    new: list[bytes] = []
    at += 1
    while len(old) < olds or len(new) < news:
        if at >= len(lines):
            raise _bad(first + 1, "announces more lines than there are")
        sign, text = lines[at][:1], lines[at][1:]
        # some tools cut the blank of an empty context line
        if sign in (b"\n", b"\r"):
            sign, text = b" ", lines[at]
        if sign == b"\\":
            _cut(old if lines[at - 1][:1] in b"- " else None, new if lines[at - 1][:1] in b"+ " else None)
        elif sign in (b" ", b"-", b"+"):
            if sign != b"+":
                old.append(text)
            if sign != b"-":
                new.append(text)
        else:
            raise _bad(at + 1, "belongs to no hunk")
        at += 1
    if at < len(lines) and lines[at].startswith(b"\\"):
        _cut(old if lines[at - 1][:1] in b"- " else None, new if lines[at - 1][:1] in b"+ " else None)
        at += 1
    if len(old) != olds or len(new) != news:
        raise _bad(first + 1, f"announces {olds} old and {news} new lines, and {len(old)} and {len(new)} follow")
    return Hunk(start if olds else start + 1, tuple(old), tuple(new)), at


def _cut(*sides: list[bytes] | None) -> None:
    """ "No newline at end of file": the last line of these sides has no end."""
    for side in sides:
        if side:
            side[-1] = side[-1].removesuffix(b"\n")


def apply(data: bytes, patch: FilePatch, *, reverse: bool = False, moved: bool = False) -> bytes:
    """The content after the patch, or before it with ``reverse``.

    Refusal names the first line that differs. With ``moved``, a hunk may stand at another line if its old text occurs
    exactly once in the file.
    """
    lines = _lines(data)
    shift = 0
    for hunk in patch.hunks:
        old, new = (hunk.new, hunk.old) if reverse else (hunk.old, hunk.new)
        start = hunk.line - 1 + (0 if reverse else shift)
        if tuple(lines[start : start + len(old)]) != old or start < 0:
            places = _places(lines, old)
            if not (moved and len(places) == 1):
                raise _differs(patch.path, start, lines, old, places)
            start = places[0]
        lines[start : start + len(old)] = new
        shift += len(new) - len(old)
    return b"".join(lines)


def _places(lines: list[bytes], old: tuple[bytes, ...]) -> list[int]:
    """Where the lines stand in the file."""
    return [i for i in range(len(lines) - len(old) + 1) if tuple(lines[i : i + len(old)]) == old] if old else []


def _differs(path: str, start: int, lines: list[bytes], old: tuple[bytes, ...], places: list[int]) -> Refusal:
    offset, line, here = 0, b"", "the file ends"
    for offset, line in enumerate(old):
        found = lines[start + offset] if 0 <= start + offset < len(lines) else None
        if found != line:
            here = "the file ends" if found is None else f"the file has {_quote(found)}"
            break
    elsewhere = f" Its lines stand at line {places[0] + 1} now." if len(places) == 1 else ""
    return Refusal(
        f"{path}, line {start + offset + 1}: the patch expects {_quote(line)}, and {here}.{elsewhere} "
        "Nothing was changed.",
        "Let hunks stand at other lines where their text is unique: ungate patch import --moved FILE"
        if elsewhere
        else "Use the patch that was made for the installed version: ungate patch status",
    )


def _quote(line: bytes) -> str:
    return repr(line.decode("utf-8", "replace").rstrip("\r\n"))


def edits_between(file: str, before: bytes, after: bytes, why: str = "") -> tuple[Edit, ...]:
    """Whole-line edits that turn one content into the other."""
    return tuple(_spans(file, before, after, why))


def _spans(file: str, before: bytes, after: bytes, why: str) -> Iterator[Edit]:
    old, new = _lines(before), _lines(after)
    offsets = [0]
    for line in old:
        offsets.append(offsets[-1] + len(line))
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, low, high, first, last in matcher.get_opcodes():
        if tag != "equal":
            start, end = offsets[low], offsets[high]
            yield Edit(file, start, end, before[start:end], b"".join(new[first:last]), why=why)
