"""What the scan asks of a language: three steps, so that names can be followed across files.

``gather`` runs on every file that concerns the language, in any process, and returns what other files may need
to know of it (for C and C++: the macros it defines under a condition). ``settle`` puts these together once.
``read`` makes the object that the patterns look at. Facts and index cross process borders, so both can be pickled and
are small.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

__all__ = ["Reader", "Unreadable"]


class Unreadable(Exception):
    """A file that cannot be read as its language; the text is the reason, for the ``unread`` list."""


class Reader(Protocol):
    """One language. ``source/cuda/reader.py`` offers ``READER``, an object of this shape."""

    suffixes: frozenset[str]

    def concerns(self, data: bytes) -> bool:
        """Whether the file can hold a gate at all; a few byte searches, no parsing."""

    def gather(self, file: str, data: bytes) -> Any:
        """The facts of one file (``file`` is relative to the scanned root), or None; raises :class:`Unreadable`."""

    def settle(self, facts: Iterable[tuple[str, Any]]) -> Any:
        """The index over all files, from (file, facts) pairs."""

    def read(self, file: str, data: bytes, index: Any) -> Any:
        """The file as the patterns look at it, or None where it holds no gate; raises :class:`Unreadable`."""
