"""The ledger's tables, one migration a function, in order; a migration that shipped is never edited."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime

__all__ = ["MIGRATIONS", "migrate"]

Migration = Callable[[sqlite3.Connection], None]


def _first(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE run (
            id INTEGER PRIMARY KEY,
            started TEXT NOT NULL,
            ended TEXT,
            recipe TEXT NOT NULL,
            target TEXT NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'interrupted')),
            fingerprint TEXT NOT NULL CHECK (json_valid(fingerprint)),
            reopen TEXT NOT NULL DEFAULT '',
            folder TEXT NOT NULL
        ) STRICT"""
    )
    connection.execute(
        """CREATE TABLE task (
            run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            content TEXT NOT NULL,
            status TEXT NOT NULL
                CHECK (status IN ('pending', 'in_progress', 'completed', 'failed', 'cancelled')),
            priority TEXT NOT NULL CHECK (priority IN ('high', 'medium', 'low')),
            criterion TEXT NOT NULL DEFAULT '',
            changed TEXT NOT NULL,
            PRIMARY KEY (run, position)
        ) STRICT"""
    )
    connection.execute(
        """CREATE TABLE sample (
            run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
            arm TEXT NOT NULL,
            start INTEGER NOT NULL,
            cell TEXT NOT NULL,
            metric TEXT NOT NULL,
            value REAL,
            unit TEXT NOT NULL,
            note TEXT NOT NULL DEFAULT ''
        ) STRICT"""
    )
    connection.execute("CREATE INDEX sample_of_run ON sample (run, cell, metric)")
    connection.execute(
        """CREATE TABLE verdict (
            run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
            cell TEXT NOT NULL,
            decision TEXT NOT NULL CHECK (decision IN ('keep', 'revert', 'inconclusive')),
            reason TEXT NOT NULL,
            ratio REAL,
            low REAL,
            high REAL,
            level REAL NOT NULL,
            pairs INTEGER NOT NULL,
            diagnosis TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (run, cell)
        ) STRICT"""
    )


def _hypotheses(connection: sqlite3.Connection) -> None:
    connection.execute(
        """CREATE TABLE hypothesis (
            id INTEGER PRIMARY KEY,
            content TEXT NOT NULL,
            status TEXT NOT NULL
                CHECK (status IN ('pending', 'in_progress', 'completed', 'failed', 'cancelled')),
            priority TEXT NOT NULL CHECK (priority IN ('high', 'medium', 'low')),
            criterion TEXT NOT NULL,
            added TEXT NOT NULL
        ) STRICT"""
    )


MIGRATIONS: tuple[tuple[str, Migration], ...] = (
    ("0001-runs-tasks-samples-verdicts", _first),
    ("0002-hypotheses", _hypotheses),
)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the newest schema; each migration commits together with the row that records it."""
    connection.execute("CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY, applied TEXT NOT NULL) STRICT")
    for name, migration in MIGRATIONS:
        connection.execute("BEGIN IMMEDIATE")
        try:
            if connection.execute("SELECT 1 FROM migration WHERE name = ?", (name,)).fetchone() is None:
                migration(connection)
                connection.execute("INSERT INTO migration VALUES (?, ?)", (name, datetime.now(UTC).isoformat()))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
