"""One process's share of the files.

Each share is read by one process from beginning to end, so that no syntax tree crosses a process border: only names,
macro definitions and finished gates do. A name that leads into a file of another share is followed by reading that
file here too.
"""

from __future__ import annotations

import gc
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ungate.model import Gate, Unread
from ungate.scan.draft import Draft
from ungate.scan.gates import gates
from ungate.scan.patterns import Pattern, patterns
from ungate.scan.select import Source
from ungate.scan.told import Origins, Told, imports, origins_of
from ungate.source.cuda.reader import READER
from ungate.source.matcher import named
from ungate.source.python.evaluate import Evaluator
from ungate.source.python.file import PythonFile
from ungate.source.python.learning import SHORTEST
from ungate.source.python.module import PythonModule, decode
from ungate.source.python.tokens import speaks, words
from ungate.source.python.world import World, dotted_name
from ungate.source.reader import Unreadable

__all__ = ["Found", "Shard", "prepare"]

_PLAIN = re.compile(rb"[a-z]+")
"""A word such as ``enabled``, which occurs in a quarter of all files and means something else in most."""
_OFTEN = 3
"""Files that import a module for it to be searched before the others, which then know its answers."""
_HELD = 10 << 20
"""Bytes of Python text whose syntax trees are kept at once; the trees take ten to twenty times as much."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a share of the files came to."""

    gates: list[Gate]
    unread: list[Unread]
    read: int


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What a share tells the others: macro definitions, answers, and which module hands on the names of which."""

    macros: list[tuple[str, Any]]
    answers: frozenset[Told]
    stars: frozenset[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class _Read:
    """What is kept of a Python file: its gates, and the names that were met and not followed."""

    gates: list[Gate]
    refused: frozenset[str]


def prepare() -> None:
    """Import every pattern."""
    patterns("python")


@dataclass
class Shard:
    """The files of one process. ``everything`` are the Python files of all shares, for names that lead there.

    Third-party trees are searched only with ``vendored``. Their macros count in any case, and a name that leads into
    them is followed. With ``files`` gates are looked for in these alone, and every name in them is followed.
    """

    sources: Sequence[Source]
    everything: Sequence[tuple[str, str]]
    vendored: bool = True
    files: frozenset[str] | None = None
    unread: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        self.python = {
            source.file: source for source in self.sources if source.language == "python" and self._searched(source)
        }
        self.cuda = {source.file: source for source in self.sources if source.language == "cuda"}
        self.chosen: dict[str, frozenset[bytes]] = {}
        self.read: dict[str, _Read] = {}
        self.later: list[str] = []
        self.imported: Counter[bytes] = Counter()
        self.origins: Origins = {}
        self.met: Origins = {}
        self._begin()

    def _begin(self) -> None:
        """Read anew from here on, without the syntax trees of before."""
        self.world = World((Path(root), file) for root, file in self.everything)
        self.evaluator = Evaluator(self.world, common={name.decode() for name in self.origins})

    def _let_go(self) -> None:
        """Keep of what was read only the names and the gates, once the syntax trees are many."""
        if self.world.held > _HELD:
            self.evaluator.close()
            self._begin()
            gc.collect()

    def _searched(self, source: Source) -> bool:
        return self.vendored or not source.vendored

    def _asked(self, file: str) -> bool:
        return self.files is None or file in self.files

    def _data(self, source: Source) -> bytes | None:
        try:
            with open(f"{source.root}/{source.file}", "rb", buffering=0) as stream:  # noqa: PTH123 - for every file
                return stream.readall()
        except OSError as error:
            self.unread[source.file] = f"cannot be read: {error.strerror}"
            return None

    def survey(self) -> Surveyed:
        """Read every file once, and search those of Python that others import most; the others are left for later."""
        macros = []
        self.cuda_chosen: list[Source] = []
        for source in self.cuda.values():
            data = self._data(source)
            if data is None:
                continue
            looked_at = self._searched(source) and self._asked(source.file)
            if looked_at and not READER.concerns(data):
                continue
            try:
                found = READER.gather(source.file, data)
            except Unreadable as error:
                self.unread[source.file] = str(error)
                continue
            if looked_at:
                self.cuda_chosen.append(source)
            if found is not None:
                macros.append((source.file, found))
        stars: set[tuple[bytes, bytes]] = set()
        for source in self.python.values():
            data = self._data(source)
            if data is None:
                continue
            try:
                decode(data)
            except Unreadable as error:
                self.unread[source.file] = str(error)
                continue
            spoken = self.files is not None or speaks(data)
            package = source.file.endswith("__init__.py")
            for stem, star in imports(data) if spoken or package or b"import *" in data else ():
                if spoken:
                    self.imported[stem] += 1
                if star or package:
                    stars.add((stem, _stem(source.file)))
            if self.files is not None:
                # of few files every name is followed, which costs less than learning from all others which to follow
                self.chosen[source.file] = frozenset(word for word in words(data) if len(word) >= SHORTEST)
            elif spoken:
                self.chosen[source.file] = frozenset()
        first = {file for file in self.chosen if self.files is not None or self.imported[_stem(file)] >= _OFTEN}
        self.later = [file for file in self.chosen if file not in first]
        return Surveyed(macros, self._search(first), frozenset(stars))

    def extend(self, answers: frozenset[Told], stars: frozenset[tuple[bytes, bytes]]) -> frozenset[Told]:
        """Search what was left for later, and again the files with names that are answers elsewhere.

        Returns the answers that become known by that. ``stars`` are pairs of modules of which the second hands on names
        of the first.
        """
        self.origins = origins_of(self.origins, answers, stars)
        new = frozenset(name for name, stems in self.origins.items() if self.met.get(name, frozenset()) != stems)
        self.met = self.origins
        spelled = {name.decode() for name in new}
        again = {file for file, read in self.read.items() if not spelled.isdisjoint(read.refused)}
        self.evaluator.common |= spelled
        for file, source in self.python.items() if new else ():
            if file not in self.unread and (data := self._data(source)) is not None and self._meet(file, data, new):
                again.add(file)
        again.update(self.later)
        self.later = []
        return self._search(again)

    def _meet(self, file: str, data: bytes, names: frozenset[bytes]) -> bool:
        """Follow those of the names that a file holds and can have from where they are answers; whether any is new."""
        present = {
            name
            for name in {match.group() for match in named(names).finditer(data)}
            if (stems := self.origins[name]) is None or any(stem in data for stem in stems)
        }
        before = self.chosen.get(file, frozenset())
        if present <= before:
            return False
        self.chosen[file] = before | present
        return True

    def _search(self, files: Iterable[str]) -> frozenset[Told]:
        """Look for the gates of Python files; returns the names found to be answers that were not known before.

        The answers of a file are followed in those after it at once. Files of a folder come one after another: they
        import the same modules, which are then read once.
        """
        told: set[Told] = set()
        own: frozenset[bytes] = frozenset()
        searching = patterns("python")
        for file in sorted(files):
            if own and (data := self._data(self.python[file])) is not None:
                self._meet(file, data, own)
            read = self._open(file)
            if read is None:
                continue
            self.evaluator.refused = set()
            new = {(name, stem) for name, stem in _told(file, read) if not self._knows(name, stem)}
            if new:
                told |= new
                self.origins = origins_of(self.origins, new, ())
                own |= {name for name, _ in new}
                self.evaluator.common |= {name.decode() for name, _ in new}
            made = self._run(self.python[file], read, searching) if self._asked(file) else []
            for problem in read.unread:
                self.unread[file] = str(problem)
            self.read[file] = _Read(made, frozenset(self.evaluator.refused))
            self.evaluator.forget()
            self._let_go()
        return frozenset(told)

    def _knows(self, name: bytes, stem: bytes) -> bool:
        stems = self.origins.get(name, frozenset())
        return stems is None or stem in stems

    def _open(self, file: str) -> PythonFile | None:
        dotted = dotted_name(file)
        module = self.world.module(dotted)
        if module is None or module.file != file:
            source = self.python[file]
            try:
                module = PythonModule(file, dotted, source.path.read_bytes())
            except Unreadable as error:
                self.unread[file] = str(error)
                return None
            except OSError as error:
                self.unread[file] = f"cannot be read: {error.strerror}"
                return None
        made = PythonFile(module, self.evaluator, self.chosen[file])
        made.told = frozenset(self.origins) if self.files is None else None
        return made

    def find(self, index: Any) -> Found:
        """Search the files of C++ and CUDA, and collect the gates of all."""
        made = [gate for _, read in sorted(self.read.items()) for gate in read.gates]
        searching = patterns("cuda")
        for source in self.cuda_chosen:
            data = self._data(source)
            if data is None:
                continue
            try:
                cuda_file = READER.read(source.file, data, index)
            except Unreadable as error:
                self.unread[source.file] = str(error)
                continue
            if cuda_file is not None:
                made.extend(self._run(source, cuda_file, searching))
        unread = [Unread(file, reason) for file, reason in sorted(self.unread.items()) if self._asked(file)]
        read = sum(1 for file in self.chosen if self._asked(file))
        return Found(made, unread, read + len(self.cuda_chosen))

    def _run(self, source: Source, file: Any, searching: tuple[Pattern, ...]) -> list[Gate]:
        drafts: list[tuple[Pattern, Draft]] = []
        for each in searching:
            try:
                drafts.extend((each, draft) for draft in each.find(file))
            except Unreadable as error:
                self.unread[source.file] = str(error)
            except Exception as error:  # one odd file must not cost the answer for all others
                self.unread[source.file] = (
                    f"the pattern {each.slug} failed on it ({type(error).__name__}: {error}): please report this"
                )
        return gates(source, drafts)


def _stem(file: str) -> bytes:
    """The last word of a module's name."""
    return dotted_name(file).rpartition(".")[2].encode()


def _told(file: str, read: PythonFile) -> Iterator[Told]:
    """The answers of a file as the others are told them."""
    stem = _stem(file)
    yield from ((name, stem) for name in read.shared.names)
    yield from ((name, b"") for name in read.shared.anywhere if not _PLAIN.fullmatch(name))
