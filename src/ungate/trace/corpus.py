"""The text of the packages under trace, read once and searched by words before anything is parsed."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
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
        self._holding: dict[str, tuple[str, ...]] = {}
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
    def _blob(self) -> tuple[bytes, list[int], list[str]]:
        starts, names, texts, at = [], [], [], 0
        for file in self.python:
            text = self.text(file)
            starts.append(at)
            names.append(file)
            texts.append(text)
            at += len(text) + 1
        return b"\0".join(texts), starts, names

    def holding(self, word: str) -> tuple[str, ...]:
        """The Python files in which ``word`` stands as a whole word, in the order of the packages."""
        if word not in self._holding:
            self._holding[word] = tuple(dict.fromkeys(file for file, _ in self.places(word)))
        return self._holding[word]

    def places(self, word: str, *, whole: bool = True) -> Iterable[tuple[str, int]]:
        """(file, byte offset in the file) of each occurrence of ``word`` in Python text."""
        blob, starts, names = self._blob
        needle = word.encode()
        at = blob.find(needle) if needle else -1
        head = whole and needle[:1] and needle[0] in _WORD
        tail = whole and needle[-1:] and needle[-1] in _WORD
        while at >= 0:
            end = at + len(needle)
            inside = (head and at and blob[at - 1] in _WORD) or (tail and end < len(blob) and blob[end] in _WORD)
            if not inside:
                index = bisect_right(starts, at) - 1
                yield names[index], at - starts[index]
            at = blob.find(needle, end)

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
