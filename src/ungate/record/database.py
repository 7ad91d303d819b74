"""The two databases a ledger can stand in, behind one small interface: statements with ``?``, rows as tuples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ungate.record.dialect import Dialect

__all__ = ["Connection", "Database", "Parameters"]

Parameters = Sequence[object]


class Connection(Protocol):
    """An open connection; ``?`` stands for each parameter whatever the database."""

    def all(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        ...

    def run(self, statement: str, parameters: Parameters = ()) -> None:
        """Carry out a statement."""
        ...

    def many(self, statement: str, rows: Iterable[Parameters]) -> None:
        """Carry out a statement once a row."""
        ...


class Database(Protocol):
    """A place that connections are opened to; ``name`` is what messages call it, without a password."""

    dialect: Dialect
    name: str

    def read(self) -> AbstractContextManager[Connection]:
        """A connection for queries."""
        ...

    def write(self) -> AbstractContextManager[Connection]:
        """A transaction: committed at the end of the block, taken back when the block raises."""
        ...
