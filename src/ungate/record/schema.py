"""The ledger's tables, one migration a function, in order; a migration that shipped is never edited."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from ungate.record.database import Database
from ungate.record.dialect import Dialect

__all__ = ["MIGRATIONS", "migrate"]

Migration = Callable[[Dialect], tuple[str, ...]]

_STATUS = "CHECK (status IN ('pending', 'in_progress', 'completed', 'failed', 'cancelled'))"
_PRIORITY = "CHECK (priority IN ('high', 'medium', 'low'))"


def _first(d: Dialect) -> tuple[str, ...]:
    return (
        f"""CREATE TABLE run (
            id {d.key},
            started TEXT NOT NULL,
            ended TEXT,
            recipe TEXT NOT NULL,
            target TEXT NOT NULL,
            status TEXT NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'interrupted')),
            fingerprint TEXT NOT NULL CHECK ({d.json.format("fingerprint")}),
            reopen TEXT NOT NULL DEFAULT '',
            folder TEXT NOT NULL
        ){d.strict}""",
        f"""CREATE TABLE task (
            run {d.integer} NOT NULL REFERENCES run (id) ON DELETE CASCADE,
            position {d.integer} NOT NULL,
            content TEXT NOT NULL,
            status TEXT NOT NULL {_STATUS},
            priority TEXT NOT NULL {_PRIORITY},
            criterion TEXT NOT NULL DEFAULT '',
            changed TEXT NOT NULL,
            PRIMARY KEY (run, position)
        ){d.strict}""",
        f"""CREATE TABLE sample (
            {d.order}run {d.integer} NOT NULL REFERENCES run (id) ON DELETE CASCADE,
            arm TEXT NOT NULL,
            start {d.integer} NOT NULL,
            cell TEXT NOT NULL,
            metric TEXT NOT NULL,
            value {d.real},
            unit TEXT NOT NULL,
            note TEXT NOT NULL DEFAULT ''
        ){d.strict}""",
        "CREATE INDEX sample_of_run ON sample (run, cell, metric)",
        f"""CREATE TABLE verdict (
            run {d.integer} NOT NULL REFERENCES run (id) ON DELETE CASCADE,
            cell TEXT NOT NULL,
            decision TEXT NOT NULL CHECK (decision IN ('keep', 'revert', 'inconclusive')),
            reason TEXT NOT NULL,
            ratio {d.real},
            low {d.real},
            high {d.real},
            level {d.real} NOT NULL,
            pairs {d.integer} NOT NULL,
            diagnosis TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (run, cell)
        ){d.strict}""",
    )


def _hypotheses(d: Dialect) -> tuple[str, ...]:
    return (
        f"""CREATE TABLE hypothesis (
            id {d.key},
            content TEXT NOT NULL,
            status TEXT NOT NULL {_STATUS},
            priority TEXT NOT NULL {_PRIORITY},
            criterion TEXT NOT NULL,
            added TEXT NOT NULL
        ){d.strict}""",
    )


def _resuming_and_sharing(d: Dialect) -> tuple[str, ...]:
    """Steps have a name, so that a resumed run finds them; runs have an identity that no other machine's run has,
    and a verdict for each arm that was compared with the baseline."""
    return (
        "ALTER TABLE task ADD COLUMN step TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE run ADD COLUMN machine TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE run ADD COLUMN origin TEXT NOT NULL DEFAULT ''",
        f"UPDATE run SET origin = {d.identity}",
        "CREATE UNIQUE INDEX run_origin ON run (origin)",
        "ALTER TABLE hypothesis ADD COLUMN recipe TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE hypothesis ADD COLUMN cells TEXT NOT NULL DEFAULT ''",
        f"ALTER TABLE hypothesis ADD COLUMN min_effect {d.real}",
        f"ALTER TABLE hypothesis ADD COLUMN run {d.integer} REFERENCES run (id) ON DELETE SET NULL",
        f"""CREATE TABLE verdict_of_arm (
            run {d.integer} NOT NULL REFERENCES run (id) ON DELETE CASCADE,
            arm TEXT NOT NULL,
            cell TEXT NOT NULL,
            decision TEXT NOT NULL CHECK (decision IN ('keep', 'revert', 'inconclusive')),
            reason TEXT NOT NULL,
            ratio {d.real},
            low {d.real},
            high {d.real},
            level {d.real} NOT NULL,
            pairs {d.integer} NOT NULL,
            diagnosis TEXT NOT NULL DEFAULT '',
            PRIMARY KEY (run, arm, cell)
        ){d.strict}""",
        "INSERT INTO verdict_of_arm SELECT run, 'candidate', cell, decision, reason, ratio, low, high, level, pairs, "
        "diagnosis FROM verdict",
        "DROP TABLE verdict",
        "ALTER TABLE verdict_of_arm RENAME TO verdict",
    )


MIGRATIONS: tuple[tuple[str, Migration], ...] = (
    ("0001-runs-tasks-samples-verdicts", _first),
    ("0002-hypotheses", _hypotheses),
    ("0003-resuming-and-sharing", _resuming_and_sharing),
)


def migrate(database: Database) -> None:
    """Bring the tables to the newest schema; each migration commits together with the row that records it."""
    dialect = database.dialect
    with database.write() as connection:
        if dialect.lock:
            connection.run(dialect.lock)
        connection.run(
            f"CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY, applied TEXT NOT NULL){dialect.strict}"
        )
    for name, migration in MIGRATIONS:
        with database.write() as connection:
            if dialect.lock:
                connection.run(dialect.lock)
            if connection.all("SELECT name FROM migration WHERE name = ?", (name,)):
                continue
            for statement in migration(dialect):
                connection.run(statement)
            connection.run("INSERT INTO migration VALUES (?, ?)", (name, datetime.now(UTC).isoformat()))
