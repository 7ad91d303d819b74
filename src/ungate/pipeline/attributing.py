"""After a revert: why? One thing at a time is changed in the lost candidate, which names the cause, or does not.

Telemetry can say that a server spins; what makes it spin is found by experiment alone. An arm in which the path still
runs, and which is fast again, names the cause. One in which the path does not run says nothing about the path.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from ungate.errors import Refusal
from ungate.host.folders import cache_dir
from ungate.launch import Server
from ungate.measure import activation, answers, ladder
from ungate.model import Arm, Cell, Decision, Task, Verdict
from ungate.patch import create
from ungate.pipeline.altering import with_keywords, without
from ungate.pipeline.arms import BASELINE, CANDIDATE, engine_of
from ungate.pipeline.causes import Change, Tried, judged, metric_of, named
from ungate.pipeline.environment import base_environment
from ungate.pipeline.launching import Trial
from ungate.pipeline.records import Ablation, Context, Records, Request
from ungate.pipeline.starting import Start, one
from ungate.pipeline.tracing import profiling, traced

__all__ = ["attribute"]

_MOST_CONCURRENT = 256
_RUNGS = 4  # of the ladder of answers that an experiment is asked


def attribute(request: Request, records: Records, context: Context) -> Records:
    """Name the cause of a lost comparison by experiment; records unchanged where none was lost by its speed."""
    lost = [v for v in records.verdicts if v.arm == CANDIDATE and v.decision is Decision.REVERT and v.ratio]
    candidate = next((arm for arm in records.arms if arm.name == CANDIDATE), None)
    if not lost or candidate is None or request.same or request.swap:
        return records
    worst = min(lost, key=lambda verdict: verdict.ratio or 1.0)
    changes = _changes(request, records)
    sizes = _another_size(request, records)
    context.journal.plan(
        "attribute",
        [
            *((change.name, Task(f"Find out why: {change.said}", priority="low")) for change in changes),
            *(
                (f"size-{arm}", Task(f"Find out why: load the {arm} at {sizes}", priority="low"))
                for arm in ((BASELINE, CANDIDATE) if sizes else ())
            ),
        ],
    )
    # What the measuring has left of the budget, so that the time that was said beforehand is kept.
    spent, found = sum(start.seconds for start in records.starts), []
    for change in changes:
        if spent > request.budget_s and not context.journal.kept(f"attribute/{change.name}"):
            context.journal.mark(f"attribute/{change.name}", "cancelled")
            continue
        tried = context.journal.once(
            f"attribute/{change.name}",
            Tried,
            partial(_try, request, records, candidate, change, worst.cell, context),
        )
        spent += tried.seconds
        found.append(judged(records, worst, change, tried))
    if sizes is not None and spent <= request.budget_s:
        found.append(_at_another_size(request, records, sizes, worst, context))
    cause = named(found)
    if not found:
        cause = "The cause was not looked for: the time budget is used up."
    return replace(records, ablations=tuple(found), cause=cause)


def _changes(request: Request, records: Records) -> list[Change]:
    """What the recipe names, then each edited file by itself."""
    changes = [
        Change(variant.name, variant.name.replace("-", " "), variant=variant) for variant in request.recipe.ablations
    ]
    files = sorted(records.series.after) if records.series is not None else []
    changes += [
        Change(f"without-{number:02d}", f"without the edits of {file}", layer=file)
        for number, file in enumerate(files, 1)
    ]
    return changes


def _arm(request: Request, records: Records, candidate: Arm, change: Change) -> Arm:
    environment, arguments = dict(candidate.environment), candidate.arguments
    variant = change.variant
    series = records.series
    if series is not None and (change.layer or (variant is not None and variant.file)):
        if change.layer:
            series = without(series, change.layer, records.packages)
        else:
            assert variant is not None
            series = with_keywords(series, variant.file, variant.keywords, records.packages)
        overlay = create(series, records.packages, cache_dir() / "overlays", base=base_environment(request))
        environment |= overlay.environment
    if variant is not None:
        environment |= variant.environment
        arguments = (*arguments, *variant.arguments)
    return Arm(change.name, environment, arguments, series.digest if series is not None else "")


def _try(request: Request, records: Records, candidate: Arm, change: Change, cell: Cell, context: Context) -> Tried:
    """One start of the changed candidate: loaded in one cell, then asked which path ran."""
    seen: list[activation.Reading] = []
    compared: list[ladder.Ladder] = []
    folder = request.folder / "traces" / change.name
    right = _asked(context.journal.result(f"launch/{BASELINE}", Trial).answers)

    def look(server: Server) -> None:
        given = answers.collect(server.url, server.model, [rung for rung, _ in right.rungs])
        compared.append(ladder.compare(right, given))
        trace = traced(request, server, folder)
        proof, metrics = request.recipe.proof, server.engine.metrics
        seen.append(activation.read(server.url, proof, log=server.log.path, metrics=metrics, trace=trace))

    try:
        arm = profiling(request, _arm(request, records, candidate, change), engine_of(request), folder)
    except Refusal as refusal:
        return Tried(refused=refusal.what)
    earlier = [sample for sample in records.samples if sample.cell == cell]
    start = one(request, arm, 0, (cell,), earlier, context, seed=0, folder="ablations", then=look)
    if start.record.ready_s is None and not seen:
        return Tried(refused=start.record.note, seconds=start.record.seconds)
    value, note = metric_of(start, cell, request.recipe.metric)
    ways = [ran for reading in seen for ran in reading.ways.values() if ran is not None]
    wrong = next((each.evidence for each in compared if each.holds is False), "")
    return Tried(all(ways) if ways else None, value, note=note, wrong=wrong, seconds=start.record.seconds)


def _asked(given: answers.Answers | None) -> answers.Answers:
    """A few of the baseline's answers, from the shortest prompt to the most requests at once."""
    rungs = given.rungs if given is not None else ()
    places = sorted({round(part * (len(rungs) - 1) / (_RUNGS - 1)) for part in range(_RUNGS)}) if rungs else []
    return answers.Answers(tuple(rungs[place] for place in places))


def _another_size(request: Request, records: Records) -> Cell | None:
    """Four times the requests in flight, where every measured size was lost; None where one was not."""
    mine = [verdict for verdict in records.verdicts if verdict.arm == CANDIDATE]
    if any(verdict.decision is not Decision.REVERT for verdict in mine):
        return None
    largest = max(request.recipe.cells, key=lambda cell: cell.concurrency)
    count = min(4 * largest.concurrency, _MOST_CONCURRENT)
    return None if count <= largest.concurrency else replace(largest, concurrency=count)


def _at_another_size(request: Request, records: Records, cell: Cell, worst: Verdict, context: Context) -> Ablation:
    values: dict[str, float | None] = {}
    said = ""
    for name in (BASELINE, CANDIDATE):
        arm = next(arm for arm in records.arms if arm.name == name)
        start = context.journal.once(
            f"attribute/size-{name}",
            Start,
            partial(one, request, arm, 1, (cell,), (), context, seed=0, folder="ablations"),
        )
        values[name], note = metric_of(start, cell, request.recipe.metric)
        said = said or note
    theirs, own = values[BASELINE], values[CANDIDATE]
    name = f"at-{cell}"
    if not theirs or not own:
        return Ablation(name, cell, own, "unknown", f"At {cell}: no reading ({said[:160].rstrip('.')}).")
    ratio, limit = own / theirs, math.sqrt(worst.ratio or 1.0)
    share = f"the candidate makes {ratio:.0%} of the baseline"
    if ratio > limit:
        return Ablation(name, cell, own, "cause", f"At {cell} {share}: the size decides.")
    return Ablation(name, cell, own, "not the cause", f"At {cell} {share}: slow at every size that was tried.")
