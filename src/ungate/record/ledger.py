"""Past runs and what came of them."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ungate.errors import Refusal
from ungate.host.folders import state_dir
from ungate.model import Decision, Sample, Task, Verdict
from ungate.record.database import Connection, Database
from ungate.record.living import gone
from ungate.record.rows import Hypothesis, Row, Step, cell, clean, packed
from ungate.record.schema import migrate

__all__ = ["Ledger"]

_RUN = "id, started, ended, recipe, target, status, fingerprint, reopen, folder, machine, origin"
_VERDICT = "arm, cell, decision, reason, ratio, low, high, level, pairs, diagnosis"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _database(place: Path | str) -> Database:
    if isinstance(place, str) and place.startswith(("postgresql://", "postgres://")):
        from ungate.record.postgres import PostgresDatabase

        return PostgresDatabase(place)
    if isinstance(place, str) and (scheme := re.match(r"([A-Za-z][\w+.-]*)://", place)):
        raise Refusal(
            f"UNGATE_LEDGER names a database of the kind {scheme[1]}, which a ledger cannot stand in.",
            "Name a file or a PostgreSQL database: export UNGATE_LEDGER=postgresql://user@host/name",
        )
    from ungate.record.sqlite import SqliteDatabase

    return SqliteDatabase(Path(place))


class Ledger:
    """The ledger at ``place``: the path of an SQLite file, or the URL of a PostgreSQL database.

    Every method is one transaction. Several processes, and with PostgreSQL several machines, may use one at once.
    """

    def __init__(self, place: Path | str) -> None:
        self.database = _database(place)
        self.name = self.database.name
        migrate(self.database)

    @classmethod
    def here(cls) -> Ledger:
        """This user's ledger: the one that ``UNGATE_LEDGER`` names (a path or a URL), else in the state folder."""
        return cls(os.environ.get("UNGATE_LEDGER", "").strip() or state_dir() / "ledger.sqlite")

    def begin(
        self,
        recipe: str,
        target: str,
        folder: Path,
        tasks: Sequence[Task],
        fingerprint: Mapping[str, object],
        *,
        machine: str = "",
    ) -> int:
        """Write a run and its whole list of steps before the first of them; returns the run's number."""
        with self.database.write() as connection:
            ((run,),) = connection.all(
                "INSERT INTO run (started, recipe, target, status, fingerprint, folder, machine, origin) "
                "VALUES (?, ?, ?, 'running', ?, ?, ?, ?) RETURNING id",
                (
                    _now(),
                    recipe,
                    target,
                    packed(fingerprint),
                    clean(str(folder)),
                    machine,
                    uuid.uuid4().hex,
                ),
            )
            self._plan(connection, run, [Step("", position, task) for position, task in enumerate(tasks)])
        return int(run)

    def plan(self, run: int, steps: Sequence[Step]) -> None:
        """Write steps ahead; one that stands in the list already stays as it is."""
        with self.database.write() as connection:
            self._plan(connection, run, steps)

    @staticmethod
    def _plan(connection: Connection, run: int, steps: Sequence[Step]) -> None:
        connection.many(
            "INSERT INTO task (run, position, content, status, priority, criterion, changed, step) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, position) DO NOTHING",
            [
                (
                    run,
                    each.position,
                    clean(each.task.content),
                    each.task.status,
                    each.task.priority,
                    clean(each.task.criterion),
                    _now(),
                    each.name,
                )
                for each in steps
            ],
        )

    def planned(self, run: int) -> tuple[Step, ...]:
        """The list of a run's steps as it stands, in order."""
        with self.database.read() as connection:
            rows = connection.all(
                "SELECT step, position, content, status, priority, criterion FROM task WHERE run = ? ORDER BY position",
                (run,),
            )
        return tuple(Step(name, position, Task(*words)) for name, position, *words in rows)

    def step(self, run: int, position: int, status: str) -> None:
        """Change the status of one step of a run."""
        with self.database.write() as connection:
            connection.run(
                "UPDATE task SET status = ?, changed = ? WHERE run = ? AND position = ?",
                (status, _now(), run, position),
            )

    def complete(self, run: int, position: int, samples: Iterable[Sample] = ()) -> None:
        """Mark a step as completed together with the samples that it gave; a second time changes nothing."""
        with self.database.write() as connection:
            done = connection.all(
                "SELECT 1 FROM task WHERE run = ? AND position = ? AND status = 'completed'", (run, position)
            )
            if done:
                return
            self._samples(connection, run, samples)
            connection.run(
                "UPDATE task SET status = 'completed', changed = ? WHERE run = ? AND position = ?",
                (_now(), run, position),
            )

    def resume(self, run: int) -> None:
        """Take an ended run up again: what was not completed is pending."""
        with self.database.write() as connection:
            connection.run("UPDATE run SET status = 'running', ended = NULL WHERE id = ?", (run,))
            connection.run(
                "UPDATE task SET status = 'pending', changed = ? WHERE run = ? AND status <> 'completed'",
                (_now(), run),
            )

    def samples(self, run: int, samples: Iterable[Sample]) -> None:
        """Add samples to a run; a missing reading is stored as NULL."""
        with self.database.write() as connection:
            self._samples(connection, run, samples)

    @staticmethod
    def _samples(connection: Connection, run: int, samples: Iterable[Sample]) -> None:
        connection.many(
            "INSERT INTO sample (run, arm, start, cell, metric, value, unit, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(run, s.arm, s.start, str(s.cell), s.metric, s.value, s.unit, clean(s.note)) for s in samples],
        )

    def verdicts(self, run: int, verdicts: Iterable[Verdict]) -> None:
        """Set the verdicts of a run, one a cell and arm."""
        with self.database.write() as connection:
            connection.many(
                f"INSERT INTO verdict (run, {_VERDICT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (run, arm, cell) DO UPDATE SET decision = excluded.decision, reason = excluded.reason, "
                "ratio = excluded.ratio, low = excluded.low, high = excluded.high, level = excluded.level, "
                "pairs = excluded.pairs, diagnosis = excluded.diagnosis",
                [
                    (
                        run,
                        v.arm,
                        str(v.cell),
                        v.decision.value,
                        clean(v.reason),
                        v.ratio,
                        v.low,
                        v.high,
                        v.level,
                        v.pairs,
                        clean(v.diagnosis),
                    )
                    for v in verdicts
                ],
            )

    def end(self, run: int, status: str, *, reopen: str = "", fingerprint: Mapping[str, object] | None = None) -> None:
        """Close a run as completed, failed or interrupted; ``reopen`` says what would make it worth trying again."""
        with self.database.write() as connection:
            connection.run(
                "UPDATE run SET ended = ?, status = ?, reopen = ? WHERE id = ?", (_now(), status, clean(reopen), run)
            )
            if fingerprint is not None:
                connection.run("UPDATE run SET fingerprint = ? WHERE id = ?", (packed(fingerprint), run))
            if status != "completed":
                connection.run(
                    "UPDATE task SET status = 'cancelled', changed = ? WHERE run = ? "
                    "AND status IN ('pending', 'in_progress')",
                    (_now(), run),
                )

    def running(self) -> tuple[Row, ...]:
        """The runs that nobody has closed, newest first: those that are carried out, and those that were killed."""
        return self._rows("status = 'running'", ())

    def runs(self, recipe: str | None = None) -> tuple[Row, ...]:
        """Every run, or those of one recipe, newest first; one whose process is gone was interrupted."""
        if recipe is None:
            return self._rows("1 = 1", ())
        return self._rows("recipe = ?", (recipe,))

    def run(self, number: int) -> Row:
        """One run by its number; Refusal when there is none."""
        for row in self._rows("id = ?", (number,)):
            return row
        raise Refusal(f"The ledger {self.name} has no run {number}.", "See which runs there are: ungate ledger")

    def _rows(self, where: str, parameters: Sequence[object]) -> tuple[Row, ...]:
        with self.database.read() as connection:
            rows = connection.all(f"SELECT {_RUN} FROM run WHERE {where} ORDER BY id DESC", parameters)
            those = f"run IN (SELECT id FROM run WHERE {where})"
            tasks: dict[int, list[tuple[str, Task]]] = {}
            for run, step, *words in connection.all(
                f"SELECT run, step, content, status, priority, criterion FROM task WHERE {those} "
                "ORDER BY run, position",
                parameters,
            ):
                tasks.setdefault(run, []).append((step, Task(*words)))
            dead = {row[0] for row in rows if row[5] == "running" and gone(row[8])}
            verdicts: dict[int, list[Verdict]] = {}
            for run, arm, name, decision, reason, *numbers, diagnosis in connection.all(
                f"SELECT run, {_VERDICT} FROM verdict WHERE {those}", parameters
            ):
                ratio, low, high, level, pairs = numbers
                verdict = Verdict(
                    cell(name), Decision(decision), reason, ratio, low, high, level, pairs, diagnosis, arm
                )
                verdicts.setdefault(run, []).append(verdict)
        return tuple(
            Row(
                id=row[0],
                started=row[1],
                ended=row[2],
                recipe=row[3],
                target=row[4],
                status="interrupted" if row[0] in dead else row[5],
                fingerprint=json.loads(row[6]),
                reopen=row[7],
                folder=row[8],
                verdicts=tuple(sorted(verdicts.get(row[0], ()), key=_order)),
                tasks=tuple(_left(task) if row[0] in dead else task for _, task in tasks.get(row[0], ())),
                steps=tuple(step for step, _ in tasks.get(row[0], ())),
                machine=row[9],
                origin=row[10],
            )
            for row in rows
        )

    def samples_of(self, run: int) -> tuple[Sample, ...]:
        """The samples of a run in the order they were added."""
        with self.database.read() as connection:
            rows = connection.all(
                "SELECT arm, start, cell, metric, value, unit, note FROM sample WHERE run = ? ORDER BY rowid", (run,)
            )
        return tuple(Sample(arm, start, cell(name), *rest) for arm, start, name, *rest in rows)

    def suppose(self, hypothesis: Hypothesis) -> int:
        """Add a hypothesis with the criterion that completes it; returns its number (the record's is ignored)."""
        task = hypothesis.task
        with self.database.write() as connection:
            ((number,),) = connection.all(
                "INSERT INTO hypothesis (content, status, priority, criterion, added, recipe, cells, min_effect) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                (
                    clean(task.content),
                    task.status,
                    task.priority,
                    clean(task.criterion),
                    _now(),
                    hypothesis.recipe,
                    " ".join(map(str, hypothesis.cells)),
                    hypothesis.min_effect,
                ),
            )
        return int(number)

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """Every hypothesis, the highest priority first, then in the order they were added."""
        with self.database.read() as connection:
            rows = connection.all(
                "SELECT id, content, status, priority, criterion, recipe, cells, min_effect, run FROM hypothesis "
                "ORDER BY CASE priority WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END, id"
            )
        return tuple(
            Hypothesis(number, Task(*words), recipe, tuple(map(cell, cells.split())), effect, run)
            for number, *words, recipe, cells, effect, run in rows
        )

    def settle(self, hypothesis: int, status: str, run: int | None = None) -> None:
        """Change the status of a hypothesis, and which run tries it."""
        with self.database.write() as connection:
            connection.run(
                "UPDATE hypothesis SET status = ?, run = COALESCE(?, run) WHERE id = ?", (status, run, hypothesis)
            )


def _left(task: Task) -> Task:
    """A step as a killed run leaves it."""
    return replace(task, status="cancelled") if task.status == "in_progress" else task


def _order(verdict: Verdict) -> tuple[str, int, int, int]:
    return verdict.arm, verdict.cell.concurrency, verdict.cell.prompt_tokens, verdict.cell.output_tokens
