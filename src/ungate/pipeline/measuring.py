"""The arms in turn, each start a fresh server, the same cells on each."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ungate.judge import Plan, order, plan
from ungate.judge.interval import Prior
from ungate.model import Decision, Task
from ungate.pipeline import readings
from ungate.pipeline.arms import compared, names
from ungate.pipeline.records import Context, Records, Request, StartRecord
from ungate.pipeline.starting import Start, one

__all__ = ["design", "measure", "planned"]

_SPREAD = 0.05  # between starts, until this machine has runs of its own


def design(request: Request, prior: Prior | None) -> Plan:
    """The plan of a request, from this machine's earlier spread between starts or an assumed one."""
    return plan(
        min_effect=request.min_effect,
        spread=prior.spread if prior else _SPREAD,
        cells=len(request.recipe.cells) * len(compared(request)),
        pairs=request.pairs,
        arms=len(names(request)),
        weight=prior.weight if prior else 0.0,
    )


def planned(request: Request, prior: Prior | None) -> list[tuple[str, str, Task]]:
    """Every start of the measuring, in order: the name of its step, its arm, its line in the task list."""
    sequence = order(design(request, prior).pairs, names(request))
    return [
        (f"{number:02d}-{arm}", arm, Task(f"Start {number + 1} of {len(sequence)}: load the {arm}"))
        for number, arm in enumerate(sequence)
    ]


def measure(request: Request, records: Records, context: Context) -> Records:
    """Start the arms in the planned order and load every cell at each start.

    An arm whose outputs are wrong or that does not start is left out. When the time budget is used up, the measuring
    ends after a whole round of the arms.
    """
    chosen = design(request, context.prior)
    by_name = {arm.name: arm for arm in records.arms}
    broken = {guard.arm for guard in records.guards if guard.holds is False and guard.breaks is Decision.REVERT}
    steps = planned(request, context.prior)
    width = len(names(request))
    done: list[Start] = []
    late: list[StartRecord] = []
    for number, (name, arm, _) in enumerate(steps):
        step = f"measure/{name}"
        if arm in broken:
            context.journal.mark(step, "cancelled")
            continue
        if late or (number % width == 0 and not context.journal.kept(step) and _over(done, request.budget_s, width)):
            late.append(StartRecord(arm, number, None, "left out: the time budget is used up"))
            context.journal.mark(step, "cancelled")
            continue
        context.report(f"start {number + 1} of {len(steps)}: {arm}", number, len(steps))
        earlier = [sample for start in done for sample in start.samples]
        done.append(
            context.journal.once(
                step,
                Start,
                partial(
                    one,
                    request,
                    by_name[arm],
                    number,
                    request.recipe.cells,
                    earlier,
                    context,
                    seed=number // width,
                ),
                lambda start: start.samples,
            )
        )
    windows = {key: window for start in done for key, window in start.windows.items()}
    idle = next((start.idle for start in done if start.idle is not None), None)
    return replace(
        records,
        plan=chosen,
        starts=(*records.starts, *(start.record for start in done), *late),
        samples=tuple(sample for start in done for sample in start.samples),
        telemetry=tuple(row for start in done for row in start.rows),
        windows=windows,
        diagnoses={
            (arm, cell): readings.diagnose(windows, cell, idle, arm)
            for arm in compared(request)
            for cell in request.recipe.cells
        },
    )


def _over(done: list[Start], budget_s: float, width: int) -> bool:
    """Whether another round of ``width`` starts would go beyond the budget, judged by the starts so far.

    The starts' own times are added up, so that a run that was interrupted and resumed is not charged for the pause.
    """
    elapsed = sum(start.record.seconds for start in done)
    return bool(done) and elapsed + width * elapsed / len(done) > budget_s
