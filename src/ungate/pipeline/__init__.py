"""The pipeline: which stages there are, in which order. Only this package knows the order and writes the ledger."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ungate.errors import Exit, Refusal
from ungate.host.files import write
from ungate.host.folders import state_dir
from ungate.host.progress import Report, silent
from ungate.model import Decision, Recipe, Task
from ungate.pipeline import opening, reading
from ungate.pipeline.document import document
from ungate.pipeline.opening import ask
from ungate.pipeline.reading import prepare
from ungate.pipeline.records import Context, Records, Request, Stage
from ungate.pipeline.telling import fingerprint, following, reopen, tell

if TYPE_CHECKING:
    from ungate.record import Ledger

__all__ = ["STAGES", "Outcome", "Request", "ask", "forecast", "new_folder", "prepare", "run", "stages_of"]


def _launch(request: Request, records: Records, context: Context) -> Records:
    # The serving half brings numpy and aiohttp with it, which a run that stops before it does not wait for.
    from ungate.pipeline.launching import launch

    return launch(request, records, context)


def _measure(request: Request, records: Records, context: Context) -> Records:
    from ungate.pipeline.measuring import measure

    return measure(request, records, context)


def _judge(request: Request, records: Records, context: Context) -> Records:
    from ungate.pipeline.measuring import judge

    return judge(request, records, context)


STAGES: tuple[Stage, ...] = (
    Stage("doctor", "Read the host facts that decide the outcome", reading.doctor),
    Stage("scan", "Find every gate in the packages", reading.scan),
    Stage("trace", "Put the gates in order from the flag to the kernel", reading.trace),
    Stage("check", "Check whether they may be opened here", opening.check),
    Stage("patch", "Open them in an overlay and scan it again", opening.patch),
    Stage("build", "Compile what the edits touch and look into the binary", opening.build),
    Stage("launch", "Start each arm once: ready, outputs equal, path proved", _launch),
    Stage("measure", "Load both arms in turn, each start a fresh server", _measure),
    Stage("judge", "Decide each cell: keep, revert or inconclusive", _judge),
    Stage("report", "Write the report", tell),
)

_SERVER = {"launch", "measure", "judge", "report"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: its exit code, its records, its JSON document and its number in the ledger."""

    code: Exit
    records: Records
    document: dict[str, Any]
    run: int


def new_folder(recipe: str) -> Path:
    """A run folder that no other run has."""
    base = state_dir() / "runs"
    base.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        folder = base / (f"{stamp}-{recipe}" + (f"-{number}" if number else ""))
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise Refusal(f"No run folder could be made below {base}.", f"Look at it: ls {base}")


def forecast(request: Request) -> str:
    """The predicted duration of a run that measures, in a sentence; empty for one that does not."""
    if request.until not in {"measure", "judge", "report"} or not request.command:
        return ""
    from ungate.pipeline.measuring import design as plan_of

    cells = len(request.recipe.cells)
    design = plan_of(request, None)
    load = design.starts * cells * request.load_s
    return (
        f"{design.starts + 2} server starts, {cells} cells of {request.load_s:.0f} s each: "
        f"{load / 60:.1f} minutes of load and the time the server takes to start, "
        f"at most {request.budget_s / 60:.0f} minutes. {design.sentence}"
    )


def stages_of(recipe: Recipe, until: str, command: Sequence[str]) -> tuple[Stage, ...]:
    """The stages up to ``until``; Refusal where one of them needs a server command that was not given."""
    names = [stage.name for stage in STAGES]
    if until not in names:
        raise Refusal(f"There is no stage '{until}'.", f"Pass one of these: --until {' | '.join(names)}")
    chosen = STAGES[: names.index(until) + 1]
    if not command and any(stage.name in _SERVER for stage in chosen):
        raise Refusal(
            "From the stage 'launch' on, a run needs the server's command line after '--'.",
            f"Add it: ungate run {recipe.name} -- SERVER COMMAND, or stop before that: --until build",
        )
    return chosen


def run(request: Request, report: Report = silent) -> Outcome:
    """Run the stages up to ``request.until``; every step is in the ledger before it begins.

    A stage that finds a reason to stop (terminal finding, wrong outputs) ends the run early, and what
    follows from it is still judged and reported. KeyboardInterrupt and Refusal pass through after the ledger has
    been closed; no child of the run is left.
    """
    from ungate.record import Ledger

    stages = stages_of(request.recipe, request.until, request.command)
    ledger = Ledger.here()
    tasks = [Task(stage.task, priority="high" if stage.name in {"check", "judge"} else "medium") for stage in stages]
    started = datetime.now(UTC).isoformat(timespec="seconds")
    number = ledger.begin(request.recipe.name, str(request.target), request.folder, tasks, {"pid": os.getpid()})
    context = Context(report, lambda samples: ledger.samples(number, samples))
    records, status, position = Records(), "failed", 0
    try:
        for position, stage in enumerate(stages):
            if records.stopped and stage.name not in {"judge", "report"}:
                tasks[position] = _mark(ledger, number, position, tasks[position], "cancelled")
                continue
            tasks[position] = _mark(ledger, number, position, tasks[position], "in_progress")
            if stage.name == "report":
                # The page tells of itself as done: it is, when anybody reads it.
                tasks[position] = replace(tasks[position], status="completed")
                _save(request, records, tasks, started)
            records = stage.act(request, records, context)
            tasks[position] = _mark(ledger, number, position, tasks[position], "completed")
        status = "completed"
    except KeyboardInterrupt:
        status = "interrupted"
        _mark(ledger, number, position, tasks[position], "cancelled")
        raise
    except BaseException:
        _mark(ledger, number, position, tasks[position], "failed")
        raise
    finally:
        ledger.verdicts(number, records.verdicts)
        ledger.end(number, status, reopen=reopen(request, records), fingerprint=fingerprint(records))
    told = _save(request, records, tasks, started)
    return Outcome(_code(records), records, told, number)


def _mark(ledger: Ledger, run: int, position: int, task: Task, status: str) -> Task:
    ledger.step(run, position, status)
    return replace(task, status=status)


def _save(request: Request, records: Records, tasks: Sequence[Task], started: str) -> dict[str, Any]:
    ended = datetime.now(UTC).isoformat(timespec="seconds")
    told = document(request, records, tasks, following(request, records), started=started, ended=ended)
    write(request.folder / "run.json", json.dumps(told, indent=1).encode("utf-8"))
    return told


def _code(records: Records) -> Exit:
    """A revert in any cell is a finding, as is a run that a check stopped; then comes inconclusive, then keep."""
    decisions = {verdict.decision for verdict in records.verdicts}
    if Decision.REVERT in decisions:
        return Exit.FINDINGS
    if not decisions and any(finding.severity == "terminal" for finding in records.findings):
        return Exit.FINDINGS
    if Decision.INCONCLUSIVE in decisions:
        return Exit.INCONCLUSIVE
    return Exit.DONE
