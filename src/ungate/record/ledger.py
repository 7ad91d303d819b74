"""Past runs and what came of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ungate.errors import Refusal
from ungate.model import Cell, Decision, Sample, Task, Verdict
from ungate.record.schema import migrate

__all__ = ["Ledger", "Row"]


@dataclass(frozen=True, slots=True)
class Row:
    """One run as the ledger holds it. Times are ISO 8601 in UTC; ``ended`` is None while it has not ended."""

    id: int
    started: str
    ended: str | None
    recipe: str
    target: str
    status: str
    fingerprint: Mapping[str, object]
    reopen: str
    folder: str
    verdicts: tuple[Verdict, ...]
    tasks: tuple[Task, ...]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _cell(text: str) -> Cell:
    concurrency, prompt, output = text.split("-")
    return Cell(int(concurrency[1:]), int(prompt[1:]), int(output[1:]))


class Ledger:
    """The SQLite file at ``path`` (WAL: several processes may read and write at once, each write is atomic)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as connection:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                migrate(connection)
            except sqlite3.DatabaseError as error:
                raise Refusal(
                    f"The ledger {path} cannot be used: {error}.",
                    f"Move it away and run the command again: mv {path} {path}.broken",
                ) from error

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def begin(
        self, recipe: str, target: str, folder: Path, tasks: Sequence[Task], fingerprint: Mapping[str, object]
    ) -> int:
        """Write a run and its whole list of steps before the first of them; returns the run's number."""
        with self._write() as connection:
            cursor = connection.execute(
                "INSERT INTO run (started, recipe, target, status, fingerprint, folder) "
                "VALUES (?, ?, ?, 'running', ?, ?)",
                (_now(), recipe, target, json.dumps(fingerprint, sort_keys=True), str(folder)),
            )
            run = int(cursor.lastrowid or 0)
            connection.executemany(
                "INSERT INTO task VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(run, i, t.content, t.status, t.priority, t.criterion, _now()) for i, t in enumerate(tasks)],
            )
        return run

    def step(self, run: int, position: int, status: str) -> None:
        """Change the status of one step of a run."""
        with self._write() as connection:
            connection.execute(
                "UPDATE task SET status = ?, changed = ? WHERE run = ? AND position = ?",
                (status, _now(), run, position),
            )

    def samples(self, run: int, samples: Iterable[Sample]) -> None:
        """Add samples to a run; a missing reading is stored as NULL."""
        with self._write() as connection:
            connection.executemany(
                "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(run, s.arm, s.start, str(s.cell), s.metric, s.value, s.unit, s.note) for s in samples],
            )

    def verdicts(self, run: int, verdicts: Iterable[Verdict]) -> None:
        """Set the verdicts of a run, one a cell."""
        with self._write() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO verdict VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        run,
                        str(v.cell),
                        v.decision.value,
                        v.reason,
                        v.ratio,
                        v.low,
                        v.high,
                        v.level,
                        v.pairs,
                        v.diagnosis,
                    )
                    for v in verdicts
                ],
            )

    def end(self, run: int, status: str, *, reopen: str = "", fingerprint: Mapping[str, object] | None = None) -> None:
        """Close a run as completed, failed or interrupted; ``reopen`` says what would make it worth trying again."""
        with self._write() as connection:
            connection.execute(
                "UPDATE run SET ended = ?, status = ?, reopen = ? WHERE id = ?", (_now(), status, reopen, run)
            )
            if fingerprint is not None:
                connection.execute("UPDATE run SET fingerprint = ? WHERE id = ?", (json.dumps(fingerprint), run))
            if status != "completed":
                connection.execute(
                    "UPDATE task SET status = 'cancelled', changed = ? WHERE run = ? AND status = 'pending'",
                    (_now(), run),
                )

    def runs(self, recipe: str | None = None) -> tuple[Row, ...]:
        """Every run, or those of one recipe, newest first."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT id, started, ended, recipe, target, status, fingerprint, reopen, folder FROM run "
                "WHERE ?1 IS NULL OR recipe = ?1 ORDER BY id DESC",
                (recipe,),
            ).fetchall()
            return tuple(self._row(connection, row) for row in rows)

    def run(self, number: int) -> Row:
        """One run by its number; Refusal when there is none."""
        for row in self.runs():
            if row.id == number:
                return row
        raise Refusal(f"The ledger {self.path} has no run {number}.", "See which runs there are: ungate ledger")

    def samples_of(self, run: int) -> tuple[Sample, ...]:
        """The samples of a run in the order they were added."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT arm, start, cell, metric, value, unit, note FROM sample WHERE run = ? ORDER BY rowid", (run,)
            ).fetchall()
        return tuple(
            Sample(arm, start, _cell(cell), metric, v, unit, note) for arm, start, cell, metric, v, unit, note in rows
        )

    def suppose(self, task: Task) -> int:
        """Add a hypothesis with the criterion that completes it; returns its number."""
        with self._write() as connection:
            cursor = connection.execute(
                "INSERT INTO hypothesis (content, status, priority, criterion, added) VALUES (?, ?, ?, ?, ?)",
                (task.content, task.status, task.priority, task.criterion, _now()),
            )
        return int(cursor.lastrowid or 0)

    def hypotheses(self) -> tuple[Task, ...]:
        """Every hypothesis, the highest priority first, then in the order they were added."""
        with self._open() as connection:
            rows = connection.execute(
                "SELECT content, status, priority, criterion FROM hypothesis ORDER BY "
                "CASE priority WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END, id"
            ).fetchall()
        return tuple(Task(*row) for row in rows)

    @staticmethod
    def _row(connection: sqlite3.Connection, row: tuple[object, ...]) -> Row:
        verdicts = connection.execute(
            "SELECT cell, decision, reason, ratio, low, high, level, pairs, diagnosis FROM verdict WHERE run = ?",
            (row[0],),
        ).fetchall()
        tasks = connection.execute(
            "SELECT content, status, priority, criterion FROM task WHERE run = ? ORDER BY position", (row[0],)
        ).fetchall()
        return Row(
            id=int(str(row[0])),
            started=str(row[1]),
            ended=None if row[2] is None else str(row[2]),
            recipe=str(row[3]),
            target=str(row[4]),
            status=str(row[5]),
            fingerprint=json.loads(str(row[6])),
            reopen=str(row[7]),
            folder=str(row[8]),
            verdicts=tuple(Verdict(_cell(v[0]), Decision(v[1]), *v[2:]) for v in verdicts),
            tasks=tuple(Task(*task) for task in tasks),
        )
