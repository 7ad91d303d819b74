"""The ledger of a team in a PostgreSQL database; needs the extra ``postgres`` (psycopg)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from ungate.errors import Refusal
from ungate.record.database import Parameters
from ungate.record.dialect import POSTGRES, Dialect

__all__ = ["PostgresDatabase"]

_CONNECT_S = 10


class _Connection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def all(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._connection.execute(
            POSTGRES.statement(statement), tuple(parameters)
        ).fetchall()
        return rows

    def run(self, statement: str, parameters: Parameters = ()) -> None:
        self._connection.execute(POSTGRES.statement(statement), tuple(parameters))

    def many(self, statement: str, rows: Iterable[Parameters]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(POSTGRES.statement(statement), [tuple(row) for row in rows])


class PostgresDatabase:
    """The database that ``url`` names (``postgresql://user@host/name``); Refusal where it cannot be reached."""

    dialect: Dialect = POSTGRES

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"  # never with a password
        try:
            import psycopg
        except ImportError as error:
            raise Refusal(
                f"A ledger in PostgreSQL ({self.name}) needs the package psycopg, which is not installed: {error}.",
                "Install it beside ungate: pip install 'ungate[postgres]'",
            ) from error
        self._psycopg = psycopg
        self._url = url

    @contextmanager
    def _open(self) -> Iterator[Any]:
        try:
            connection = self._psycopg.connect(self._url, connect_timeout=_CONNECT_S)
        except self._psycopg.Error as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise Refusal(
                f"The ledger {self.name} cannot be reached: {reason}.",
                "Check that the server runs and lets you in: psql \"$UNGATE_LEDGER\" -c 'select 1'",
            ) from error
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def read(self) -> Iterator[_Connection]:
        """One snapshot: what is read in the block belongs together."""
        with self._open() as connection:
            connection.isolation_level = self._psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            with connection.transaction():
                yield _Connection(connection)

    @contextmanager
    def write(self) -> Iterator[_Connection]:
        """A transaction; it is taken back when the block raises."""
        with self._open() as connection, connection.transaction():
            yield _Connection(connection)
