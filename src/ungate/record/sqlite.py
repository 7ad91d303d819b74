"""The ledger in one SQLite file; WAL lets several processes read and write it at once."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ungate.errors import Refusal, shell
from ungate.host.folders import made
from ungate.record.database import Parameters
from ungate.record.dialect import SQLITE, Dialect

__all__ = ["SqliteDatabase"]

_BUSY_S = 30.0


class _Connection:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def all(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, tuple(parameters)).fetchall()

    def run(self, statement: str, parameters: Parameters = ()) -> None:
        self._connection.execute(statement, tuple(parameters))

    def many(self, statement: str, rows: Iterable[Parameters]) -> None:
        self._connection.executemany(statement, [tuple(row) for row in rows])


class SqliteDatabase:
    """The file at ``path``, made with its folder if need be; Refusal where it is no database."""

    dialect: Dialect = SQLITE

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path)
        made(path.parent, "UNGATE_LEDGER" if os.environ.get("UNGATE_LEDGER") else "UNGATE_STATE_DIR")
        try:
            with self._open() as connection:
                connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.DatabaseError as error:
            raise Refusal(
                f"The ledger {path} cannot be used: {error}.",
                f"Move it away and run the command again: mv {shell(path)} {shell(f'{path}.broken')}",
            ) from error

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with contextlib.closing(sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None)) as connection:
                connection.execute("PRAGMA foreign_keys = ON")
                # In WAL mode anything less keeps the file whole and may lose the last transactions with the power.
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except sqlite3.OperationalError as error:
            raise Refusal(
                f"The ledger {self.path} cannot be used: {error}.",
                "See whether it may be written and the disk has room: "
                f"df -h {shell(self.path.parent)}; ls -l {shell(self.path)}",
            ) from error

    @contextmanager
    def read(self) -> Iterator[_Connection]:
        """One snapshot: what is read in the block belongs together."""
        with self._open() as connection:
            connection.execute("BEGIN")
            yield _Connection(connection)
            connection.execute("COMMIT")

    @contextmanager
    def write(self) -> Iterator[_Connection]:
        """A transaction that waits for another writer rather than fail at its commit."""
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield _Connection(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk has already taken it back
                    connection.execute("ROLLBACK")
                raise
