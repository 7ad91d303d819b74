"""Which functions and kernels of a compiled module are reached from what Python calls on it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from functools import cached_property

from ungate.trace.corpus import Corpus
from ungate.trace.native import Native, Unit, read_native

__all__ = ["Translation", "Translations"]

_MOST = 400  # headers read for one module
_THIRD_PARTY = ("cutlass/", "cccl/", "spdlog/", "3rdparty/", "third_party/", "/cute/")


class Translations:
    """Reads native files once and resolves includes inside the corpus."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._read: dict[str, Native] = {}

    def native(self, file: str) -> Native:
        if file not in self._read:
            self._read[file] = read_native(file, self.corpus.text(file))
        return self._read[file]

    @cached_property
    def _roots(self) -> tuple[str, ...]:
        """Folders that includes are written relative to: every ``include`` and ``csrc`` folder of the corpus."""
        roots = dict.fromkeys(
            file[: file.index(mark) + len(mark)]
            for file in self.corpus.native
            for mark in ("/include/", "/csrc/", "/nv_internal/")
            if mark in file and not any(part in file for part in _THIRD_PARTY)
        )
        return tuple(sorted(roots, key=len))

    def include(self, file: str, text: str) -> str | None:
        """The file of the corpus that an include names, None where it is not among the packages."""
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(file), text))
        if beside in self.corpus.native:
            return beside
        for root in self._roots:
            candidate = posixpath.normpath(root + text)
            if candidate in self.corpus.native:
                return candidate
        return None

    def closure(self, sources: Iterable[str]) -> dict[str, tuple[str, int]]:
        """Every file that the sources include, with (file, line) of the include; sources have ("", 0)."""
        found: dict[str, tuple[str, int]] = {source: ("", 0) for source in sources}
        pending = list(found)
        while pending and len(found) < _MOST:
            file = pending.pop(0)
            for text, line in self.native(file).includes:
                inside = self.include(file, text)
                if inside is None or inside in found or any(part in inside for part in _THIRD_PARTY):
                    continue
                found[inside] = (file, line)
                pending.append(inside)
        return found

    def translation(self, sources: Iterable[str]) -> Translation:
        return Translation(self, tuple(sources))


class Translation:
    """One module: its sources, each a translation unit with everything that it includes.

    Headers of the same module often hold functions of the same name, so a word is looked up in the translation
    unit where it stands, and in the other sources only where that one does not define it.
    """

    def __init__(self, translations: Translations, sources: tuple[str, ...]) -> None:
        self.sources = sources
        self._included: dict[str, dict[str, tuple[str, int]]] = {}
        self.files: dict[str, Native] = {}
        self.units: dict[str, frozenset[str]] = {}
        self._named: dict[str, dict[str, list[Unit]]] = {}
        for source in sources:
            closure = translations.closure([source])
            self.units[source] = frozenset(closure)
            named = self._named.setdefault(source, {})
            self._included[source] = closure
            for file in closure:
                self.files[file] = native = translations.native(file)
                for unit in native.units:
                    named.setdefault(unit.name, []).append(unit)

    @cached_property
    def exports(self) -> dict[str, tuple[str, int, str]]:
        """What Python can call: name to (function, line, file).

        Where no source binds anything by name, the functions of the sources are called directly (as ctypes does).
        """
        bound = {
            name: (function, line, file)
            for file, native in self.files.items()
            for name, (function, line) in native.exports.items()
        }
        return bound or {
            unit.name: (unit.name, unit.first, source)
            for source in self.sources
            for unit in self.files[source].units
            if unit.function and not unit.kernel
        }

    def included(self, file: str, source: str) -> tuple[str, int]:
        """(file, line) of the include that brings a file into a source's translation unit."""
        return self._included.get(source, {}).get(file, ("", 0))

    def source_of(self, file: str) -> str:
        """The source whose translation unit a file belongs to (the first of several), itself for a source."""
        return next((source for source, files in self.units.items() if file in files), file)

    def reached(self, exports: Iterable[str], *, wide: bool = False) -> frozenset[Unit]:
        """Every unit that runs when these exports are called, as far as calls stay in one translation unit or go to
        another source. ``wide`` follows a word that the own translation unit does not define into every other one,
        headers included: what is not in that set cannot run."""
        known = self.exports
        seen: set[Unit] = set()
        words: set[tuple[str, str]] = set()
        pending = [(known[name][0], self.source_of(known[name][2])) for name in exports if name in known]
        while pending:
            word, source = pending.pop()
            if (word, source) in words:
                continue
            words.add((word, source))
            for unit, home in self._defined(word, source, wide):
                seen.add(unit)
                words.add((unit.name, home))
                pending.extend((inner, home) for inner in unit.words if (inner, home) not in words)
        return frozenset(seen)

    def _defined(self, word: str, source: str, wide: bool) -> list[tuple[Unit, str]]:
        own = self._named.get(source, {}).get(word)
        if own:
            return [(unit, source) for unit in own]
        others = (other for other in self.sources if other != source)
        found = [(unit, other) for other in others for unit in self._named[other].get(word, ())]
        return found if wide else [(unit, other) for unit, other in found if unit.file in self.units]
