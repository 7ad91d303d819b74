"""Runs as one JSON document, to be read on another machine: what was tried there need not be tried here.

A run keeps its origin, so that importing it twice, or back where it came from, adds nothing. Its folder stays behind:
an imported run has its verdicts, steps and samples, and no page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ungate.errors import Refusal
from ungate.model import Sample, Task
from ungate.plain import plain
from ungate.record.ledger import Ledger
from ungate.record.rows import Row, clean, packed

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["FORMAT", "export", "take_in"]

FORMAT = 1

_Cell = Annotated[str, StringConstraints(pattern=r"^c[1-9]\d{0,8}-i[1-9]\d{0,8}-o[1-9]\d{0,8}$")]
_Origin = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_STRICT = ConfigDict(extra="forbid")


class _Task(BaseModel):
    model_config = _STRICT
    content: str
    status: Literal["pending", "in_progress", "completed", "failed", "cancelled"]
    priority: Literal["high", "medium", "low"]
    criterion: str = ""
    step: str = ""


class _Sample(BaseModel):
    model_config = _STRICT
    arm: str
    start: int
    cell: _Cell
    metric: str
    value: _Number | None
    unit: str
    note: str = ""


class _Verdict(BaseModel):
    model_config = _STRICT
    cell: _Cell
    decision: Literal["keep", "revert", "inconclusive"]
    reason: str
    ratio: _Number | None = None
    low: _Number | None = None
    high: _Number | None = None
    level: _Number
    pairs: int
    diagnosis: str = ""
    arm: str = "candidate"


class _Run(BaseModel):
    model_config = _STRICT
    origin: _Origin
    started: str
    ended: str | None
    recipe: str
    target: str
    status: Literal["completed", "failed", "interrupted"]
    fingerprint: dict[str, object]
    reopen: str
    machine: str
    tasks: list[_Task]
    verdicts: list[_Verdict]
    samples: list[_Sample]


class _Document(BaseModel):
    model_config = _STRICT
    format: Literal[1]
    runs: list[_Run]


def export(ledger: Ledger, numbers: Sequence[int] = ()) -> dict[str, object]:
    """The ended runs of these numbers, or all, as one JSON document; Refusal for one that has not ended."""
    rows = [ledger.run(number) for number in numbers] if numbers else list(ledger.runs())[::-1]
    if living := [row.id for row in rows if row.status == "running"]:
        if numbers:
            raise Refusal(
                f"Run {living[0]} has not ended, so it cannot be exported.",
                f"See its steps: ungate tasks --run {living[0]}, or take it up again: ungate run --resume {living[0]}",
            )
        rows = [row for row in rows if row.status != "running"]
    return {"format": FORMAT, "runs": [_told(row, ledger.samples_of(row.id)) for row in rows]}


def _told(row: Row, samples: Sequence[Sample]) -> dict[str, object]:
    return {
        "origin": row.origin,
        "started": row.started,
        "ended": row.ended,
        "recipe": row.recipe,
        "target": row.target,
        "status": row.status,
        "fingerprint": plain(row.fingerprint),
        "reopen": row.reopen,
        "machine": row.machine,
        "tasks": [_task(task, step) for task, step in zip(row.tasks, row.steps, strict=True)],
        "verdicts": [{**_fields(verdict), "cell": str(verdict.cell)} for verdict in row.verdicts],
        "samples": [{**_fields(sample), "cell": str(sample.cell)} for sample in samples],
    }


def _fields(record: object) -> dict[str, object]:
    fields = plain(record)
    assert isinstance(fields, dict)
    return fields


def _task(task: Task, step: str) -> dict[str, object]:
    return {**_fields(task), "step": step}


def take_in(ledger: Ledger, document: Mapping[str, object], where: str) -> tuple[int, int]:
    """Add the document's runs that the ledger does not have; returns how many were added and how many it had.

    All of them or none. Refusal that names ``where`` and the first errors for anything but such a document.
    """
    advice = "Write one on the other machine: ungate ledger export --output runs.json"
    try:
        read = _Document.model_validate(document)
    except ValidationError as error:
        found = [_wrong(each) for each in error.errors()[:5]]
        raise Refusal(f"{where} does not hold exported runs: {'; '.join(found)}.", advice) from error
    added = 0
    with ledger.database.write() as connection:
        for run in read.runs:
            if connection.all("SELECT 1 FROM run WHERE origin = ?", (run.origin,)):
                continue
            ((number,),) = connection.all(
                "INSERT INTO run (started, ended, recipe, target, status, fingerprint, reopen, folder, machine, origin)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, '', ?, ?) RETURNING id",
                (
                    clean(run.started),
                    run.ended,
                    clean(run.recipe),
                    clean(run.target),
                    run.status,
                    packed(run.fingerprint),
                    clean(run.reopen),
                    clean(run.machine),
                    run.origin,
                ),
            )
            connection.many(
                "INSERT INTO task (run, position, content, status, priority, criterion, changed, step) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (number, place, clean(t.content), t.status, t.priority, clean(t.criterion), run.started, t.step)
                    for place, t in enumerate(run.tasks)
                ],
            )
            connection.many(
                "INSERT INTO verdict (run, arm, cell, decision, reason, ratio, low, high, level, pairs, diagnosis) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (number, *_values(v.model_dump(), "arm cell decision reason ratio low high level pairs diagnosis"))
                    for v in run.verdicts
                ],
            )
            connection.many(
                "INSERT INTO sample (run, arm, start, cell, metric, value, unit, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(number, *_values(s.model_dump(), "arm start cell metric value unit note")) for s in run.samples],
            )
            added += 1
    return added, len(read.runs) - added


def _wrong(error: ErrorDetails) -> str:
    if error["type"] == "model_type":
        where = ".".join(map(str, error["loc"])) or "it"
        return f"{where} is no JSON object"
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"


def _values(fields: Mapping[str, object], names: str) -> list[object]:
    values = [fields[name] for name in names.split()]
    return [clean(value) if isinstance(value, str) else value for value in values]
