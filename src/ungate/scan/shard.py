"""One process's share of the files.

Each share is read by one process from beginning to end, so that no syntax tree crosses a process border: only names,
macro definitions and finished gates do. A name that leads into a file of another share is followed by reading that
file here too.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ungate.model import Gate, Unread
from ungate.scan.draft import Draft
from ungate.scan.gates import gates
from ungate.scan.patterns import Pattern, patterns
from ungate.scan.select import Source
from ungate.source.cuda.reader import READER
from ungate.source.matcher import named
from ungate.source.python.evaluate import Evaluator
from ungate.source.python.file import SHORTEST, PythonFile
from ungate.source.python.module import PythonModule, decode
from ungate.source.python.tokens import speaks, telling, words
from ungate.source.python.world import World, dotted_name
from ungate.source.reader import Unreadable

__all__ = ["Found", "Shard", "prepare"]

_PLAIN = re.compile(rb"[a-z]+")
"""A word such as ``enabled``, which occurs in a quarter of all files: it is followed after the name of its module."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a share of the files came to."""

    gates: list[Gate]
    unread: list[Unread]
    read: int


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
        self.world = World((Path(root), file) for root, file in self.everything)
        self.evaluator = Evaluator(self.world)
        self.python = {
            source.file: source for source in self.sources if source.language == "python" and self._searched(source)
        }
        self.cuda = {source.file: source for source in self.sources if source.language == "cuda"}
        self.chosen: dict[str, frozenset[bytes]] = {}
        self.opened: dict[str, PythonFile] = {}
        self.known: frozenset[bytes] = frozenset()
        self.told: set[bytes] = set()

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

    def survey(self) -> tuple[list[tuple[str, Any]], frozenset[bytes]]:
        """Read every file once: the macro definitions of C++, and the names under which Python gives answers."""
        facts = []
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
                facts.append((source.file, found))
        for source in self.python.values():
            data = self._data(source)
            if data is None:
                continue
            try:
                decode(data)
            except Unreadable as error:
                self.unread[source.file] = str(error)
                continue
            if self.files is not None:
                # of few files every name is followed, which costs less than learning from all others which to follow
                self.chosen[source.file] = frozenset(word for word in words(data) if len(word) >= SHORTEST)
            elif speaks(data):
                self.chosen[source.file] = frozenset()
        return facts, self._answers(list(self.chosen))

    def _answers(self, files: list[str]) -> frozenset[bytes]:
        found: set[bytes] = set()
        for file in files:
            read = self._open(file)
            if read is not None:
                stem = read.module.dotted.rpartition(".")[2].encode()
                found |= {stem + b"." + name if _PLAIN.fullmatch(name) else name for name in read.shared}
        new = {name for name in found if not telling(name.decode())} - self.told
        self.told |= new
        return frozenset(new)

    def extend(self, names: frozenset[bytes]) -> frozenset[bytes]:
        """Look for names that are answers elsewhere; returns the answers that become known by that."""
        self.known |= names
        self.evaluator.common.update(name.decode() for name in names)
        touched = []
        for file, source in self.python.items():
            if file in self.unread or (data := self._data(source)) is None:
                continue
            present = frozenset(match.group().rpartition(b".")[2] for match in named(names).finditer(data))
            if present:
                self.chosen[file] = self.chosen.get(file, frozenset()) | present
                touched.append(file)
        return self._answers(touched)

    def _open(self, file: str) -> PythonFile | None:
        names = self.chosen.get(file, frozenset())
        ready = self.opened.get(file)
        if ready is not None and ready.current:
            ready.follow(names)
            ready.told = self.known if self.files is None else None
            return ready
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
        made = self.opened[file] = PythonFile(module, self.evaluator, names)
        made.told = self.known if self.files is None else None
        return made

    def find(self, index: Any) -> Found:
        """Run the patterns over the files that were chosen."""
        made: list[Gate] = []
        searching = patterns("python")
        chosen = [file for file in sorted(self.chosen) if self._asked(file)]
        for file in chosen:
            read = self._open(file)
            if read is None:
                continue
            made.extend(self._run(self.python[file], read, searching))
            for problem in read.unread:
                self.unread[file] = str(problem)
            self.evaluator.forget()
            del self.opened[file]  # its nodes by type and its questions take more memory than its text
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
        return Found(made, unread, len(chosen) + len(self.cuda_chosen))

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
