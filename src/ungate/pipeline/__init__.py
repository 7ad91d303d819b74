"""The pipeline: which stages there are, in which order. Only this package knows the order and writes the ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ungate.errors import Exit, Refusal
from ungate.host.files import write
from ungate.host.folders import made, state_dir, unusable
from ungate.host.progress import Report, silent
from ungate.model import Decision, Task
from ungate.pipeline.document import document
from ungate.pipeline.opening import ask
from ungate.pipeline.reading import prepare
from ungate.pipeline.records import Context, Records, Request, Stage
from ungate.pipeline.stages import STAGES, stages_of, startable
from ungate.pipeline.telling import fingerprint, following, reopen
from ungate.plain import counted

if TYPE_CHECKING:
    from ungate.host.facts import HostFacts
    from ungate.judge.interval import Prior
    from ungate.pipeline.journal import Journal
    from ungate.pipeline.resuming import Begun
    from ungate.record import Ledger

__all__ = [
    "STAGES",
    "Outcome",
    "Request",
    "ask",
    "forecast",
    "new_folder",
    "prepare",
    "resume",
    "run",
    "stages_of",
    "startable",
]

_HIGH = {"check", "judge"}
_MOST_WEIGHT = 6.0  # degrees of freedom of the prior: this run's own starts must be able to outweigh it


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: its exit code, its records, its JSON document and its number in the ledger."""

    code: Exit
    records: Records
    document: dict[str, Any]
    run: int
    request: Request


def new_folder(recipe: str) -> Path:
    """A run folder that no other run has."""
    base = made(state_dir() / "runs")
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        folder = base / (f"{stamp}-{recipe}" + (f"-{number}" if number else ""))
        try:
            folder.mkdir(mode=0o700)  # its files hold the arms' whole environment, and so perhaps keys
        except FileExistsError:
            continue
        except OSError as error:
            raise unusable(folder, error) from error
        return folder
    raise Refusal(f"No run folder could be made below {base}.", f"Look at it: ls {base}")


def forecast(request: Request) -> str:
    """The predicted duration of a run that measures, in a sentence; empty for one that does not."""
    if request.until not in {"measure", "judge", "attribute", "report"} or not request.command:
        return ""
    from ungate.pipeline.measuring import design as plan_of
    from ungate.record import Ledger

    cells = len(request.recipe.cells)
    ledger = Ledger.here()
    design = plan_of(request, _prior(ledger, request, request.facts or _facts(request)))
    beside = [str(row.id) for row in ledger.running() if row.status == "running" and Path(row.folder).is_dir()]
    warning = (
        f" Run {', '.join(beside)} is still going on here: each disturbs what the other measures." if beside else ""
    )
    load = design.starts * cells * request.load_s
    return (
        f"{design.starts + design.arms} server starts, {counted(cells, 'cell')} of {request.load_s:.0f} s each: "
        f"{load / 60:.1f} minutes of load and the time the server takes to start, "
        f"at most {request.budget_s / 60:.0f} minutes; what is left of them goes into experiments after a revert. "
        f"{design.sentence}{warning}"
    )


def _prior(ledger: Ledger, request: Request, facts: HostFacts | None) -> Prior | None:
    """What this machine's earlier runs of the recipe say of the spread of a pair's log-ratio."""
    from ungate.judge.interval import Prior
    from ungate.record.noise import machine, spread

    found = spread(ledger, machine=machine(facts), recipe=request.recipe.name, metric=request.recipe.metric)
    return None if found is None else Prior(found.value, min(float(found.degrees), _MOST_WEIGHT))


def run(request: Request, report: Report = silent, *, hypothesis: int | None = None) -> Outcome:
    """Run the stages up to ``request.until``; every step is in the ledger before it begins.

    A stage that finds a reason to stop (terminal finding, wrong outputs) ends the run early, and what
    follows from it is still judged and reported. KeyboardInterrupt and Refusal pass through after the ledger has
    been closed; no child of the run is left. ``hypothesis`` is the number of what this run is to decide.
    """
    from ungate.pipeline.resuming import clear_up, held, remember
    from ungate.record import Ledger

    stages = stages_of(request.recipe, request.until, request.command)
    startable(request.recipe, stages, request.command, request.variables)
    if request.facts is None:
        request = replace(request, facts=_facts(request))
    ledger = Ledger.here()
    for each in clear_up(ledger):
        report(f"cleared up after run {each}, which was killed")
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with held(request.folder):  # before the ledger tells of the run, so that it is never taken for a dead one
        number = _begin(ledger, request)
        if hypothesis is not None:
            ledger.settle(hypothesis, "in_progress", number)
        prior = _prior(ledger, request, request.facts)
        return _carry_out(remember(request, started, number, prior=prior, hypothesis=hypothesis), ledger, report)


def resume(number: int | None = None, report: Report = silent) -> Outcome:
    """Take up a run that was interrupted, killed or failed: finished steps are not repeated, none of them is lost.

    Without a number the newest that has not been completed. Refusal where there is none, where another process
    still carries it out, and where the packages are no longer those that its steps were about.
    """
    from ungate.pipeline.resuming import begun, choose, held
    from ungate.record import Ledger

    ledger = Ledger.here()
    chosen = begun(choose(ledger, number))
    with held(chosen.request.folder):
        return _carry_out(chosen, ledger, report, resumed=True)


def _facts(request: Request) -> HostFacts:
    from ungate.host.facts import collect

    return collect(request.environment)


def _begin(ledger: Ledger, request: Request) -> int:
    from ungate.record.noise import machine

    name, target = request.recipe.name, str(request.target)
    return ledger.begin(name, target, request.folder, (), {}, machine=machine(request.facts))


def _carry_out(begun: Begun, ledger: Ledger, report: Report, *, resumed: bool = False) -> Outcome:
    from ungate.pipeline.journal import Journal
    from ungate.pipeline.resuming import alive

    request = begun.request
    stages = stages_of(request.recipe, request.until, request.command)
    with alive(request.folder, begun.marker):
        if resumed:
            ledger.resume(begun.number)
        journal = Journal(ledger, begun.number, request.folder / "steps", [stage.name for stage in STAGES])
        _plan(journal, request, stages, begun.prior)
        context = Context(report, journal, begun.prior)
        records, status = Records(), "failed"
        try:
            records = _stages(request, records, context, stages, begun.started, resumed)
            status = "completed"
        except KeyboardInterrupt:
            status = "interrupted"
            raise KeyboardInterrupt(f"Its finished steps are kept: ungate run --resume {begun.number}") from None
        finally:
            ledger.verdicts(begun.number, records.verdicts)
            ledger.end(begun.number, status, reopen=reopen(request, records), fingerprint=fingerprint(request, records))
            if begun.hypothesis is not None:
                decided = status != "completed" or records.stopped or "judge" in {stage.name for stage in stages}
                word = {"completed": "completed", "failed": "failed"}.get(status, "pending") if decided else "pending"
                ledger.settle(begun.hypothesis, word)
        told = _save(request, records, journal.tasks, begun.started)
    return Outcome(_code(records), records, told, begun.number, request)


def _plan(journal: Journal, request: Request, stages: Sequence[Stage], prior: Prior | None) -> None:
    """Write every step ahead that is known by now; experiments on a lost candidate are added when it has lost."""
    for stage in stages:
        journal.plan(stage.name, [("", Task(stage.task, priority="high" if stage.name in _HIGH else "medium"))])
        if stage.name == "launch":
            from ungate.pipeline.arms import names

            journal.plan("launch", [(name, Task(f"Start the {name} once, for proof")) for name in names(request)])
        if stage.name == "measure":
            from ungate.pipeline.measuring import planned

            journal.plan("measure", [(name, task) for name, _, task in planned(request, prior)])


def _stages(
    request: Request, records: Records, context: Context, stages: Sequence[Stage], started: str, resumed: bool
) -> Records:
    journal = context.journal
    checked = not resumed
    for stage in stages:
        if records.stopped and stage.name not in {"judge", "report"}:
            journal.cancel(stage.name)
            continue
        if not checked and not journal.kept(stage.name):
            from ungate.pipeline.resuming import still_stands

            still_stands(request, records)
            checked = True
        if stage.name == "report":
            # The page tells of itself as done: it is, when anybody reads it.
            _save(request, records, journal.told(stage.name, "completed"), started)
        records = journal.changed(stage.name, records, partial(stage.act, request, records, context))
    return records


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
