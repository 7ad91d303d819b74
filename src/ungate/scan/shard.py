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
from ungate.scan.told import Told, origins_of
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
_STAR = re.compile(rb"^[ \t]*from[ \t]+[\w.]*?(\w+)[ \t]+import[ \t]*\*", re.M)
_FROM = re.compile(rb"^[ \t]*from[ \t]+[\w.]*?(\w+)[ \t]+import\b", re.M)

_HELD = 10 << 20
"""Bytes of Python text whose syntax trees are kept at once; the trees take about twelve times as much."""


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
        self.known: frozenset[bytes] = frozenset()
        self.told: set[Told] = set()
        self._begin()

    def _begin(self) -> None:
        """Read anew from here on, without the syntax trees of before."""
        self.world = World((Path(root), file) for root, file in self.everything)
        self.evaluator = Evaluator(self.world, common={name.decode() for name in self.known})

    def _let_go(self) -> None:
        """Keep of what was read only the names and the gates, once the syntax trees are many."""
        if self.world.held > _HELD:
            self.world.close()
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
        """Read every file once, and search those of Python for gates with the names that they know by themselves."""
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
            handing = _FROM if source.file.endswith("__init__.py") else _STAR if b"import *" in data else None
            if handing is not None:
                stars.update((of, _stem(source.file)) for of in handing.findall(data))
            if self.files is not None:
                # of few files every name is followed, which costs less than learning from all others which to follow
                self.chosen[source.file] = frozenset(word for word in words(data) if len(word) >= SHORTEST)
            elif speaks(data):
                self.chosen[source.file] = frozenset()
        return Surveyed(macros, self._search(self.chosen), frozenset(stars))

    def meet(self, answers: frozenset[Told], stars: frozenset[tuple[bytes, bytes]]) -> Counter[bytes]:
        """Look for names that are answers elsewhere; returns in how many files each occurs.

        ``stars`` are pairs of modules of which the second hands on names of the first.
        """
        origins = origins_of(answers, stars)
        self.told |= {(name, stem) for name, stems in origins.items() for stem in stems or ()}
        self.known |= origins.keys()
        searching = named(frozenset(origins))
        counted: Counter[bytes] = Counter()
        self.met: dict[str, dict[bytes, bool]] = {}
        for file, source in self.python.items():
            if file in self.unread or (data := self._data(source)) is None:
                continue
            present = {match.group() for match in searching.finditer(data)}
            if present:
                counted.update(present)
                self.met[file] = {
                    name: (stems := origins[name]) is None or any(stem in data for stem in stems) for name in present
                }
        return counted

    def extend(self, common: frozenset[bytes]) -> frozenset[Told]:
        """Search the files again in which names were met; returns the answers that become known by that.

        A name that is ``common`` counts only where a module is spoken of that it can be imported from.
        """
        spelled = {name.decode() for name in self.known}
        again = {
            file for file, read in self.read.items() if not (spelled - self.evaluator.common).isdisjoint(read.refused)
        }
        self.evaluator.common |= spelled
        for file, present in self.met.items():
            names = {
                name for name, spoken in present.items() if spoken or not (name in common or _PLAIN.fullmatch(name))
            }
            if names:
                self.chosen[file] = self.chosen.get(file, frozenset()) | names
                again.add(file)
        return self._search(again)

    def _search(self, files: Iterable[str]) -> frozenset[Told]:
        """Look for the gates of Python files; returns the names found to be answers that were not told before."""
        found: set[Told] = set()
        searching = patterns("python")
        for file in sorted(files):
            read = self._open(file)
            if read is None:
                continue
            self.evaluator.refused = set()
            found |= {told for told in _told(file, read) if told not in self.told}
            made = self._run(self.python[file], read, searching) if self._asked(file) else []
            for problem in read.unread:
                self.unread[file] = str(problem)
            self.read[file] = _Read(made, frozenset(self.evaluator.refused))
            self.evaluator.forget()
            self._let_go()
        self.told |= found
        return frozenset(found)

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
        made.told = self.known if self.files is None else None
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
