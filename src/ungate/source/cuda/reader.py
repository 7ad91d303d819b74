"""C, C++ and CUDA for the scan: which files matter, the macros that cross files, and the file for the patterns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ungate.source.cuda import targets
from ungate.source.cuda.conditions import SWITCH, Conditions, names_an_arch
from ungate.source.cuda.directives import read
from ungate.source.cuda.file import CudaFile
from ungate.source.cuda.hostwords import mentions
from ungate.source.cuda.macros import ARCH, Definition, Macros, gather, settle

__all__ = ["READER", "CudaReader"]

_ENDINGS = (
    ".cu .cuh .h .hh .hpp .hxx .cpp .cc .cxx .c .inc .inl .cu.in .cuh.in .h.in .jinja .jinja2 .cmake CMakeLists.txt"
)
SUFFIXES = frozenset(_ENDINGS.split())
"""What a file's name ends in."""

_DIRECTIVES = re.compile(rb"#[ \t]*(if|el|en|define)([a-z]*)([ \t(!][^\n]*|(?=\r?\n))")
_HINT = re.compile(rb"ARCH|SM_?[0-9]|ENABLE|ACTIV|SUPPORT|HAS_|USE_|FEAT|AVAIL")
_BY_NAME = re.compile(rf"_ARCH\b|{SWITCH}".encode())
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]+")


@dataclass(slots=True)
class _Index:
    """The macros over all files; conditions are judged once a process."""

    definitions: dict[str, tuple[Definition, ...]]
    others: frozenset[str]
    _conditions: Conditions | None = field(default=None, repr=False)
    _names: frozenset[bytes] | None = field(default=None, repr=False)

    def __getstate__(self) -> tuple[dict[str, tuple[Definition, ...]], frozenset[str]]:
        return self.definitions, self.others

    def __setstate__(self, state: tuple[dict[str, tuple[Definition, ...]], frozenset[str]]) -> None:
        self.definitions, self.others = state
        self._conditions, self._names = None, None

    @property
    def conditions(self) -> Conditions:
        if self._conditions is None:
            self._conditions = Conditions(Macros(self.definitions, self.others))
        return self._conditions

    @property
    def names(self) -> frozenset[bytes]:
        if self._names is None:
            everything = {*self.definitions, *targets.names(), ARCH}
            self._names = frozenset(name.encode("latin-1") for name in everything)
        return self._names


def _defines_under_hint(data: bytes) -> bool:
    """Whether a ``#define`` stands under a condition that may be about the architecture."""
    hinted: list[bool] = []
    for word, rest, argument in _DIRECTIVES.findall(data):
        if word == b"if":
            hinted.append(bool(_HINT.search(argument)) and not (rest == b"ndef" and not hinted))
        elif word == b"el" and hinted:
            hinted[-1] = hinted[-1] or bool(_HINT.search(argument))
        elif word == b"en" and hinted:
            hinted.pop()
        elif word == b"define" and (b"_ARCH" in argument or any(hinted)):
            return True
    return False


@dataclass(frozen=True)
class CudaReader:
    """The :class:`~ungate.source.reader.Reader` of C, C++ and CUDA."""

    suffixes: frozenset[str] = SUFFIXES

    def concerns(self, data: bytes) -> bool:
        """Whether the file holds a conditional directive or a word that host tests and build lists use."""
        return b"#if" in data or b"# if" in data or b"#  if" in data or mentions(data)

    def gather(self, file: str, data: bytes) -> tuple[Definition, ...] | None:
        """The macros that the file defines under a condition; None where there are none."""
        if not _defines_under_hint(data):
            return None
        return gather(read(data.decode("latin-1"))) or None

    def settle(self, facts: Iterable[tuple[str, Any]]) -> _Index:
        """The macros that depend on the architecture, over all files."""
        definitions, others = settle(found for _, found in facts if found)
        return _Index(definitions, frozenset(name for name in others if names_an_arch(name)))

    def read(self, file: str, data: bytes, index: _Index) -> CudaFile | None:
        """The file for the patterns, or None where no condition reads an arch macro and no host word occurs."""
        host = mentions(data)
        if not host and not _tests(data, index.names):
            return None
        return CudaFile(file, data.decode("latin-1"), index.conditions, host)


def _tests(data: bytes, names: frozenset[bytes]) -> bool:
    if b"__CUDA_ARCH" in data:
        return True
    return any(
        word in (b"if", b"el")
        and (_BY_NAME.search(argument) is not None or not names.isdisjoint(_WORD.findall(argument)))
        for word, _, argument in _DIRECTIVES.findall(data)
    )


READER = CudaReader()
