"""The text of the packages under trace, read once and searched by words before anything is parsed."""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ungate.model import Unread

if TYPE_CHECKING:
    from ungate.host.packages import Package

__all__ = ["NATIVE_SUFFIXES", "Corpus", "aside"]

NATIVE_SUFFIXES = (".cu", ".cuh", ".h", ".hpp", ".hh", ".inc", ".inl", ".cc", ".cpp", ".cxx", ".c", ".jinja", ".so")
_SKIPPED = frozenset({"__pycache__", "node_modules", ".git"})
_ASIDE = re.compile(
    r"(^|/)(tests?|testing|benchmarks?|examples?|bench_[^/]*)(/|\.py$)|/(data/cutlass|3rdparty|third_party)/"
)
_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_LONGEST_IMPORT = 4000  # bytes of one import statement
_AROUND = re.compile(
    r"""((?:def |class |["'])?)(\w+)((?:["']|: | = )?)""", re.ASCII
)  # one word and what is asked of its sides
_HEADS = {head: re.compile(head + rb"(\w+)") for head in (b"def ", b"class ")}


class Corpus:
    """The files below the packages' top-level folders.

    A file is named by its path relative to the package's root, with forward slashes. Python text is
    read whole and at once, because a search over memory is faster than opening candidates one by one;
    native files are listed, and read only when a hop leads there.
    """

    def __init__(self, packages: Sequence[Package]) -> None:
        self.packages = tuple(packages)
        self.python: dict[str, Path] = {}
        self.native: dict[str, Path] = {}
        self.owner: dict[str, Package] = {}
        self.unread: list[Unread] = []
        self._texts: dict[str, bytes] = {}
        self._holding: dict[tuple[str, frozenset[str] | None], tuple[str, ...]] = {}
        self._words: dict[tuple[str, bytes], array[int]] = {}
        self._headed: dict[tuple[str, bytes], dict[bytes, list[int]]] = {}
        self._users: dict[str, frozenset[str]] = {}
        for package in self.packages:
            for file, path in _below(package.root, package.tops):
                if file in self.owner:
                    continue
                if file.endswith(".py"):
                    self.python[file] = path
                elif file.endswith(NATIVE_SUFFIXES):
                    self.native[file] = path
                else:
                    continue
                self.owner[file] = package

    @cached_property
    def modules(self) -> dict[str, str]:
        """Dotted module name to file."""
        return {_module_name(file): file for file in self.python}

    def text(self, file: str) -> bytes:
        """The content of a file, empty (and noted in ``unread``) where it cannot be read."""
        if file not in self._texts:
            path = self.python.get(file) or self.native.get(file)
            try:
                self._texts[file] = path.read_bytes() if path else b""
            except OSError as error:
                self.unread.append(Unread(file, f"it could not be read: {error.strerror or error}"))
                self._texts[file] = b""
        return self._texts[file]

    @cached_property
    def _blobs(self) -> dict[str, tuple[bytes, list[int], list[str]]]:
        """By package: its Python text in one piece, where each file begins, and the files."""
        blobs: dict[str, tuple[list[bytes], list[int], list[str]]] = {each.name: ([], [], []) for each in self.packages}
        ends: dict[str, int] = {}
        for file in self.python:
            if aside(file):
                continue
            name, text = self.owner[file].name, self.text(file)
            texts, starts, files = blobs[name]
            starts.append(ends.get(name, 0))
            files.append(file)
            texts.append(text)
            ends[name] = starts[-1] + len(text) + 1
        return {name: (b"\0".join(texts), starts, files) for name, (texts, starts, files) in blobs.items()}

    def users(self, file: str) -> frozenset[str]:
        """The packages that can refer to what a file defines: its own, and those that import it anywhere."""
        owner = self.owner[file].name
        if owner not in self._users:
            top = file.partition("/")[0].removesuffix(".py").encode()
            found = {name for name, (blob, _, _) in self._blobs.items() if name == owner or _imports(blob, top)}
            self._users[owner] = frozenset(found)
        return self._users[owner]

    def holding(self, word: str, among: frozenset[str] | None = None) -> tuple[str, ...]:
        """The Python files in which ``word`` stands as a whole word, in the order of the packages; with ``among``,
        those of these packages."""
        if (word, among) not in self._holding:
            self._holding[word, among] = tuple(dict.fromkeys(file for file, _ in self.places(word, among=among)))
        return self._holding[word, among]

    def places(
        self, word: str, *, whole: bool = True, among: frozenset[str] | None = None
    ) -> Iterable[tuple[str, int]]:
        """(file, byte offset in the file) of each occurrence of ``word`` in Python text, except in files that lie
        aside (:func:`aside`)."""
        for name, (_, starts, files) in self._blobs.items():
            for at in self._occurrences(word, whole, name) if among is None or name in among else ():
                index = bisect_right(starts, at) - 1
                yield files[index], at - starts[index]

    def lines(self, word: str, file: str) -> tuple[int, ...]:
        """The 1-based lines of one file on which a word stands."""
        text = self.text(file)
        lines, at, count = [], 0, 1
        for offset in _found(text, word.encode(), True):
            count += text.count(b"\n", at, offset)
            at = offset
            lines.append(count)
        return tuple(dict.fromkeys(lines))

    def referring(self, word: str, own: str = "") -> tuple[str, ...]:
        """The files in which a word can stand for what the file ``own`` defines: that file, those that import the word,
        and those that read it off an object or a module. In a comment, or as another file's own name, it cannot."""
        found: dict[str, None] = {}
        for file, offset in self.places(word, among=self.users(own) if own else None):
            if file not in found and (file == own or _refers(self.text(file), offset)):
                found[file] = None
        return tuple(found)

    def reading(self, word: str) -> tuple[str, ...]:
        """The files in which a word is read off something (``.word``)."""
        places = self.places(word)
        return tuple(dict.fromkeys(file for file, offset in places if _dotted(self.text(file), offset)))

    def _occurrences(self, word: str, whole: bool, package: str) -> Iterator[int]:
        """Where a text stands in a package's Python text. One word with what stands beside it is read off the places of
        the word, which are kept: a search through everything takes long, and a name is asked for in several forms."""
        blob = self._blobs[package][0]
        known = _AROUND.fullmatch(word)
        if known is None or not (whole or (known[1] and known[3])):
            yield from _found(blob, word.encode(), whole)
            return
        head, name, tail = (part.encode() for part in known.groups())
        if head in _HEADS and not tail:
            yield from self._definitions(package, head).get(name, ())
            return
        if (package, name) not in self._words:
            self._words[package, name] = array("Q", _found(blob, name, True))
        for at in self._words[package, name]:
            first = at - len(head)
            if not (head or tail):
                yield at
            elif blob.startswith(tail, at + len(name)) and first >= 0 and blob.startswith(head, first):
                inside = whole and head and head[0] in _WORD and first and blob[first - 1] in _WORD
                if not inside:
                    yield first

    def _definitions(self, package: str, head: bytes) -> dict[bytes, list[int]]:
        """Where each name stands behind ``def`` or ``class``, all names in one pass: hundreds are asked for."""
        if (package, head) not in self._headed:
            blob, places = self._blobs[package][0], self._headed.setdefault((package, head), {})
            for found in _HEADS[head].finditer(blob):
                if not (found.start() and blob[found.start() - 1] in _WORD):
                    places.setdefault(found[1], []).append(found.start())
        return self._headed[package, head]

    def line(self, file: str, offset: int) -> int:
        """The 1-based line of a byte offset."""
        return self.text(file).count(b"\n", 0, offset) + 1

    def natives(self, suffix: str) -> tuple[str, ...]:
        """Native files whose path ends in ``suffix`` (whole path components)."""
        named = self._named.get(suffix.rpartition("/")[2], ())
        return tuple(file for file in named if file == suffix or file.endswith("/" + suffix))

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        named: dict[str, list[str]] = {}
        for file in self.native:
            named.setdefault(file.rpartition("/")[2], []).append(file)
        return named


def _found(blob: bytes, needle: bytes, whole: bool) -> Iterator[int]:
    """The offsets of a text, with ``whole`` only those where no word goes on at its ends."""
    at = blob.find(needle) if needle else -1
    head = whole and needle[:1] and needle[0] in _WORD
    tail = whole and needle[-1:] and needle[-1] in _WORD
    while at >= 0:
        end = at + len(needle)
        inside = (head and at and blob[at - 1] in _WORD) or (tail and end < len(blob) and blob[end] in _WORD)
        if not inside:
            yield at
        at = blob.find(needle, end)


def _imports(blob: bytes, top: bytes) -> bool:
    """Whether any Python text imports a package."""
    before = (blob[max(0, at - 24) : at].rstrip() for at in _found(blob, top, True))
    return any(text.endswith((b"import", b"from", b'import_module("', b"import_module('")) for text in before)


def _dotted(text: bytes, offset: int) -> bool:
    return text[max(0, offset - 80) : offset].rstrip().endswith(b".")


def _refers(text: bytes, offset: int) -> bool:
    """Whether a word is read off something or stands in an import; any star import may bring it along."""
    if _dotted(text, offset) or b"import *" in text:
        return True
    before = text[max(0, offset - _LONGEST_IMPORT) : offset]
    between = before[before.rfind(b"import") + 6 :] if b"import" in before else b"\n"
    if b"\n" not in between:
        return True
    clause = re.sub(rb"#[^\n]*", b"", between).strip()
    return (clause.startswith(b"(") and b")" not in clause) or b"\\\n" in between


def aside(file: str) -> bool:
    """Whether a Python file calls everything and serves nothing (tests, examples), or is a third party's."""
    return bool(_ASIDE.search(file))


def _below(root: Path, tops: Iterable[str]) -> Iterable[tuple[str, Path]]:
    for top in tops:
        start = root / top
        if start.is_dir():
            for folder, folders, files in os.walk(start):
                folders[:] = sorted(name for name in folders if name not in _SKIPPED)
                inside = os.path.relpath(folder, root).replace(os.sep, "/")
                for name in sorted(files):
                    yield f"{inside}/{name}", Path(folder, name)
        else:
            module = root / (top if top.endswith(".py") else f"{top}.py")
            if module.is_file():
                yield module.name, module


def _module_name(file: str) -> str:
    name = file.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")
