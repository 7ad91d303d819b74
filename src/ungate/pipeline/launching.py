"""Each arm started once: does it come up, are its outputs right, does the opened path really run?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from ungate.errors import Refusal
from ungate.judge import Guard
from ungate.launch import Watch, wait_ready
from ungate.launch.ports import free_port
from ungate.measure import activation, answers, ladder, telemetry
from ungate.model import Arm, Decision, Task
from ungate.pipeline.arms import BASELINE, CANDIDATE, alike, arms, begin, engine_of
from ungate.pipeline.loading import told
from ungate.pipeline.records import Context, Records, Request, StartRecord
from ungate.pipeline.tracing import profiling, traced

__all__ = ["OUTPUTS", "Trial", "launch", "trial"]

OUTPUTS = "outputs are right"

_QUIET_S = 30.0  # without an answer
_LOOK_S = 1.0  # between two looks at the GPUs, which tell ranks that wait for theirs from ranks that hang

_PROVED = {activation.Proof.PROVED: True, activation.Proof.DISPROVED: False, activation.Proof.UNPROVED: None}


@dataclass(frozen=True, slots=True)
class Trial:
    """One start of one arm for proof: its answers and what showed which path ran; ``refused`` says why there is none.

    ``ready_s`` is None where it did not come up.
    """

    arm: str
    ready_s: float | None = None
    answers: answers.Answers | None = None
    reading: activation.Reading | None = None
    refused: str = ""


def trial(request: Request, arm: Arm, context: Context) -> Trial:
    """Start an arm, ask it the ladder of answers and look which path ran. Refusal passes through."""
    cell = request.recipe.cells[0]
    rungs = answers.rungs(max(request.recipe.cells, key=lambda each: each.concurrency))
    context.report(f"starting the {arm.name} once: ready, outputs, proof that the path runs")
    folder = request.folder / "traces" / arm.name
    with begin(request, profiling(request, arm, engine_of(request, arm), folder), free_port()) as server:
        ready = wait_ready(server, cell, report=context.report, counters=told(server, server.engine.progress))
        # A probe beside the answers would add a row to their batches, so it is sent only when none has come for long.
        steps = told(server, server.engine.progress)
        with (
            telemetry.Recorder(server.pids, interval_s=_LOOK_S) as recorder,
            Watch(server, quiet_s=_QUIET_S, counters=steps, gpu=recorder.busiest) as watch,
        ):
            repeats = 2 if arm.name == BASELINE else 1
            given = answers.collect(server.url, server.model, rungs, repeats=repeats, on_answers=watch.progress)
        if watch.fault is not None:
            raise server.failed(f"broke down while it was asked for answers ({watch.fault.what.rstrip('.')})")
        reading = activation.read(
            server.url,
            request.recipe.proof,
            log=server.log.path,
            metrics=server.engine.metrics,
            trace=traced(request, server, folder),
        )
    return Trial(arm.name, ready.seconds, given, reading)


def launch(request: Request, records: Records, context: Context) -> Records:
    """Start each arm once. The run ends with a revert where the candidate does not start or answers wrongly.

    A further arm that fails is left out of the measuring, and its cells are reverted.
    """
    found = arms(request, records, context.report)
    trials: dict[str, Trial] = {}
    for arm in found:
        trials[arm.name] = context.journal.once(f"launch/{arm.name}", Trial, partial(_tried, request, arm, context))
    guards = [guard for arm in found[1:] for guard in _guards(request, found[0], arm, trials)]
    if any(guard.name == OUTPUTS and guard.holds is False for guard in guards):
        again = _again(request, found[0], context, len(found))
        guards = [_against_both(guard, trials, again) if guard.name == OUTPUTS else guard for guard in guards]
    starts = tuple(StartRecord(each.arm, -1, each.ready_s, each.refused) for each in trials.values())
    records = replace(records, arms=found, guards=tuple(guards), starts=starts)
    broken = {guard.arm for guard in guards if guard.holds is False and guard.breaks is Decision.REVERT}
    if broken >= {arm.name for arm in found[1:]}:
        return replace(records, stopped=_why(guards, CANDIDATE))
    return records


def _why(guards: list[Guard], arm: str) -> str:
    worst = next(guard for guard in guards if guard.arm == arm and guard.holds is False)
    what = "does not start" if worst.name == "the candidate starts" else "gives wrong outputs"
    return f"the {arm} {what}: {worst.evidence}"


def _tried(request: Request, arm: Arm, context: Context) -> Trial:
    try:
        return trial(request, arm, context)
    except Refusal as refusal:
        if arm.name == BASELINE:
            raise
        return Trial(arm.name, refused=refusal.what)


def _guards(request: Request, baseline: Arm, arm: Arm, trials: Mapping[str, Trial]) -> list[Guard]:
    """What one start of each showed; an arm that did not come up has the first guard alone."""
    first, other = trials[BASELINE], trials[arm.name]
    if other.answers is None or other.reading is None or first.answers is None or first.reading is None:
        return [Guard("the candidate starts", False, other.refused, arm=arm.name)]
    compared = ladder.compare(first.answers, other.answers)
    started = f"ready after {other.ready_s:.1f} s (baseline {first.ready_s:.1f} s)"
    return [
        Guard("the candidate starts", True, started, arm=arm.name),
        Guard(OUTPUTS, compared.holds, compared.evidence, arm=arm.name),
        _path(request, baseline, arm, first.reading, other.reading),
    ]


def _again(request: Request, baseline: Arm, context: Context, planned: int) -> Trial:
    """The baseline started once more: an autotuner that chooses anew at each start makes two of them answer apart."""
    name = f"{BASELINE}-again"
    context.journal.plan("launch", [(name, Task("Start the baseline again: does it answer as before?"))], after=planned)
    return context.journal.once(f"launch/{name}", Trial, partial(_once_more, request, baseline, context))


def _once_more(request: Request, baseline: Arm, context: Context) -> Trial:
    try:
        return trial(request, baseline, context)
    except Refusal as refusal:
        return Trial(baseline.name, refused=refusal.what)


def _against_both(guard: Guard, trials: Mapping[str, Trial], again: Trial) -> Guard:
    """The guard of an arm's outputs, with what two starts of the baseline differ by as the floor."""
    first, other = trials[BASELINE].answers, trials[guard.arm].answers
    if guard.holds is not False or first is None or other is None or again.answers is None:
        return guard
    compared = ladder.compare_with_restart(first, again.answers, other)
    return replace(guard, holds=compared.holds, evidence=compared.evidence)


def _path(request: Request, baseline: Arm, arm: Arm, first: activation.Reading, other: activation.Reading) -> Guard:
    name = "the opened path runs in the candidate only"
    if alike(baseline, arm):
        return Guard(name, None, "both arms are the same, so this measures noise", Decision.INCONCLUSIVE, arm.name)
    if arm.name != CANDIDATE:
        # A release or a switch of its own need not run what the recipe opens: that it differs is what is asked.
        ran = {None: "is not known to run", True: "runs", False: "does not run"}[_ran(other)]
        said = "; ".join(filter(None, (_difference(baseline, arm), f"what the recipe opens {ran} there")))
        return Guard("the arm differs from the baseline", True, said, arm=arm.name)
    swapped = request.swap
    proof = activation.prove(other, first) if swapped else activation.prove(first, other)
    evidence = f"the arms are swapped. {proof.evidence}" if swapped else proof.evidence
    return Guard(name, _PROVED[proof.proof], evidence, Decision.INCONCLUSIVE, arm.name)


def _ran(reading: activation.Reading) -> bool | None:
    known = [ran for ran in reading.ways.values() if ran is not None]
    return any(known) if known else None


def _difference(baseline: Arm, arm: Arm) -> str:
    changed = [f"{name}={value}" for name, value in arm.environment.items() if baseline.environment.get(name) != value]
    words = [arm.series, " ".join(arm.command), " ".join(arm.arguments), ", ".join(each[:80] for each in changed[:3])]
    return "; ".join(filter(None, words))
