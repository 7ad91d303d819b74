"""Searches that read each byte of a file once, however many alternatives there are.

Python's ``re`` tries the alternatives one after the other at every byte; RE2 makes one automaton of them
(https://github.com/google/re2). Only the constructs that need no look-around and no back-reference can be used.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Protocol

import re2

__all__ = ["Match", "Matcher", "matcher", "named"]

_MEMORY = 256 << 20
"""Bytes that the automaton of many names may take before it is started over."""


class Match(Protocol):
    """One place that matches."""

    def start(self) -> int: ...

    def end(self) -> int: ...

    def group(self) -> bytes: ...


class Matcher(Protocol):
    """A compiled pattern over bytes; positions are offsets in ``text``, whatever ``pos`` is."""

    def search(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> Match | None: ...

    def finditer(self, text: bytes, pos: int | None = None, endpos: int | None = None) -> Iterator[Match]: ...


@functools.cache
def matcher(pattern: str, *, fold: bool = False) -> Matcher:
    """A matcher for a pattern over bytes, of any case with ``fold``; a word is made of ASCII letters, digits and _."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.case_sensitive = not fold
    options.never_capture = True
    options.max_mem = _MEMORY
    made: Matcher = re2.compile(pattern.encode("latin-1"), options)
    return made


@functools.lru_cache(maxsize=32)
def named(names: frozenset[bytes]) -> Matcher:
    """A matcher for whole words out of ``names``, which must not be empty."""
    return matcher(rf"\b(?:{'|'.join(sorted(name.decode('latin-1') for name in names))})\b")
