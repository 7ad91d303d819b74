"""How a stage says how far it is, without knowing who listens."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Report", "silent"]


class Report(Protocol):
    """Called as ``report("reading", done, total)``; total 0 is not known."""

    def __call__(self, what: str, done: int = 0, total: int = 0) -> None: ...


def silent(what: str, done: int = 0, total: int = 0) -> None:
    """The report nobody reads."""
