"""From the samples of every start to a verdict a cell and arm, with the guards that a load itself can show."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ungate.judge import Guard, decide, floor
from ungate.launch.readiness import SETTLED
from ungate.measure.result import MAX_CACHED, MAX_ZERO_GAPS
from ungate.model import Cell, Decision, Sample, Verdict
from ungate.pipeline.arms import BASELINE, compared
from ungate.pipeline.ending import breaks_down
from ungate.pipeline.policies import policy, written
from ungate.pipeline.records import Context, Records, Request, StartRecord
from ungate.plain import counted

__all__ = ["judge"]

_PHASES = {"prefill": "ttft_mean", "decode": "tpot_mean"}
_THROTTLE = ("throttled_by_power", "throttled_by_heat")
_THROTTLED_APART = 0.05  # share of a cell's load: what a 5 % effect could come from


def judge(request: Request, records: Records, context: Context) -> Records:
    """The verdict of every cell and arm, from the rounds of starts that gave both readings, and every guard."""
    if not records.guards:
        return records  # stopped before any server was started: there is nothing to decide
    if records.plan is None:
        reason = records.stopped or "nothing was measured"
        verdicts = [
            Verdict(cell, Decision.REVERT, reason, arm=arm)
            for arm in compared(request)
            for cell in request.recipe.cells
        ]
        return _with_policy(request, replace(records, verdicts=tuple(verdicts)))
    verdicts = []
    phases: dict[str, list[Verdict]] = {}
    guards = list(records.guards)
    for arm in compared(request):
        mine = [guard for guard in records.guards if guard.arm == arm]
        broken = next((g for g in mine if g.holds is False and g.breaks is Decision.REVERT), None)
        general = () if broken else (*_warm_up(arm, records.starts), *_compiled(arm, records.starts))
        guards += general
        for cell in request.recipe.cells:
            if broken is not None:
                reason = f"{broken.name}: {broken.evidence}"
                verdicts.append(Verdict(cell, Decision.REVERT, reason, level=records.plan.level, arm=arm))
                continue
            here = [sample for sample in records.samples if sample.cell == cell]
            every = (*mine, *general, *_load_guards(arm, cell, here, records, request.recipe.metric))
            verdicts.append(_verdict(request, records, context, arm, cell, here, request.recipe.metric, every))
            for phase, metric in _PHASES.items():
                alone = _verdict(request, records, context, arm, cell, here, metric, mine, lower=True)
                phases.setdefault(phase, []).append(alone)
    records = replace(
        records,
        guards=tuple(guards),
        verdicts=tuple(verdicts),
        phases={name: tuple(found) for name, found in phases.items()},
    )
    return _with_policy(request, records)


def _with_policy(request: Request, records: Records) -> Records:
    records = replace(records, policy=policy(request, records))
    written(request, records)
    return records


def _verdict(
    request: Request,
    records: Records,
    context: Context,
    arm: str,
    cell: Cell,
    samples: Sequence[Sample],
    metric: str,
    guards: Sequence[Guard],
    *,
    lower: bool = False,
) -> Verdict:
    """One cell, one arm, one metric; ``lower`` is better for a latency, whose ratio is then turned round."""
    assert records.plan is not None
    mine = [s for s in samples if s.metric == metric and s.arm in {BASELINE, arm}]
    values = {(s.arm, s.start): s.value for s in mine}
    width = records.plan.arms
    ratios = []
    for number in range(records.plan.pairs):
        both = {name: value for (name, start), value in values.items() if start // width == number and value}
        if len(both) == 2:
            ratios.append(both[BASELINE] / both[arm] if lower else both[arm] / both[BASELINE])
    if not ratios:
        if broke := breaks_down(records.starts, arm, cell, BASELINE):
            return Verdict(cell, Decision.REVERT, broke, level=records.plan.level, arm=arm)
        why = next((s.note for s in mine if s.value is None and s.note), "no start was measured")
        reason = f"no pair of starts gave a reading of both arms: {why}"
        return Verdict(cell, Decision.INCONCLUSIVE, reason, level=records.plan.level, arm=arm)
    by_arm = [
        [value for (name, _), value in sorted(values.items(), key=lambda kv: kv[0][1]) if name == wanted and value]
        for wanted in (BASELINE, arm)
    ]
    found = decide(
        cell,
        ratios,
        guards,
        min_effect=request.min_effect,
        noise=floor(by_arm),
        level=records.plan.level,
        prior=context.prior if not lower else None,
        diagnosis=records.diagnoses.get((arm, cell), ""),
    )
    if len(ratios) < records.plan.pairs:
        notes = [sample.note for sample in mine if sample.value is None]
        notes += [start.note for start in records.starts if start.start >= 0 and start.ready_s is None]
        lost = next(filter(None, notes), "")
        what = f"; {len(ratios)} of {records.plan.pairs} planned pairs gave both readings"
        found = replace(found, reason=found.reason + what + (f" ({lost[:160].rstrip('.')})" if lost else ""))
    return replace(found, arm=arm)


def _warm_up(arm: str, starts: Sequence[StartRecord]) -> Iterator[Guard]:
    """The baseline was as warm as the arm: a cold one makes a gain out of nothing."""
    name = "the baseline was as warm"
    cold = {each: [start for start in _ran(starts, each) if not start.settled] for each in (BASELINE, arm)}
    count = len(_ran(starts, BASELINE)) + len(_ran(starts, arm))
    if not count:
        return
    said = f"the times of the first rounds settled in {count - len(cold[BASELINE]) - len(cold[arm])} of {count} starts"
    if len(cold[BASELINE]) > len(cold[arm]):
        which = ", ".join(str(start.start + 1) for start in cold[BASELINE])
        yield Guard(name, None, f"{said}, not in the baseline's start {which}", arm=arm)
    else:
        yield Guard(name, True, said, arm=arm)


def _compiled(arm: str, starts: Sequence[StartRecord]) -> Iterator[Guard]:
    """The baseline's JIT caches were as full as the arm's: a start that compiles is not the one that serves."""
    name = "the baseline's JIT caches were as full"
    wrote = {each: [start for start in _ran(starts, each) if start.compiled] for each in (BASELINE, arm)}
    ran = [*_ran(starts, BASELINE), *_ran(starts, arm)]
    if not ran:
        return
    if any(start.compiled is None for start in ran):
        yield Guard(name, None, "what was compiled could not be counted", arm=arm)
    elif len(wrote[BASELINE]) > len(wrote[arm]):
        said = ", ".join(f"{start.compiled} in its start {start.start + 1}" for start in wrote[BASELINE])
        yield Guard(name, None, f"compiled files were added while it was measured: {said}", arm=arm)
    else:
        count = len(wrote[BASELINE]) + len(wrote[arm])
        yield Guard(name, True, f"{count} of {len(ran)} measured starts added compiled files", arm=arm)


def _ran(starts: Sequence[StartRecord], arm: str) -> list[StartRecord]:
    """The measured starts of one arm that came up."""
    return [start for start in starts if start.start >= 0 and start.arm == arm and start.ready_s is not None]


def _load_guards(arm: str, cell: Cell, samples: Sequence[Sample], records: Records, metric: str) -> Iterator[Guard]:
    """What the load of one cell must have shown in both arms."""
    mine = [sample for sample in samples if sample.arm in {BASELINE, arm}]
    main = [sample for sample in mine if sample.metric == metric]
    lost = [sample for sample in main if sample.value is None]
    name = "every start gave a reading"
    if lost:
        said = f"{len(lost)} of {len(main)} did not ({lost[0].arm} start {lost[0].start + 1}: {lost[0].note})"
        yield Guard(name, None, said, arm=arm)
    else:
        yield Guard(name, True, counted(len(main), "start"), arm=arm)
    yield from _share(
        arm,
        # What glued chunks spoil is missing by now: where nothing is, the metric can bear them.
        mine if lost else [],
        "zero_gap_share",
        MAX_ZERO_GAPS,
        "tokens arrived one by one",
        "of the gaps between tokens were zero",
    )
    yield from _share(
        arm,
        mine,
        "cached_share",
        max(MAX_CACHED, 2 / cell.prompt_tokens),
        "the prefix cache was cold",
        "of the prompt tokens came from it",
    )
    yield from _steady(arm, mine)
    yield from _throttled(arm, cell, records)


def _share(arm: str, samples: Sequence[Sample], metric: str, most: float, name: str, what: str) -> Iterator[Guard]:
    """A share that has to stay small in every start; no guard where no start gives it."""
    values = [sample.value for sample in samples if sample.metric == metric and sample.value is not None]
    if not values:
        return
    worst = max(values)
    yield Guard(name, worst <= most, f"at most {worst:.1%} {what}", Decision.INCONCLUSIVE, arm)


def _steady(arm: str, samples: Sequence[Sample]) -> Iterator[Guard]:
    """The baseline did not become faster under its load while the arm stayed as it was; no guard without a reading.

    An engine can be slow for its first long generations although every start-up round took the same time. Each start
    of the baseline has to show it: within a single load, a busy machine makes such a difference too.
    """
    found = {
        each: [s.value for s in samples if (s.metric, s.arm) == ("speed_drift", each) and s.value is not None]
        for each in (BASELINE, arm)
    }
    if not found[BASELINE] or not found[arm]:
        return
    least, usual = min(found[BASELINE]), statistics.median(found[arm])
    said = f"the second half of a load was {usual:.2f} times as fast as the first in the {arm}"
    said += f", and at least {least:.2f} times in the baseline"
    yield Guard(
        "the baseline's speed had settled", None if least > (1 + SETTLED) * max(usual, 1.0) else True, said, arm=arm
    )


def _throttled(arm: str, cell: Cell, records: Records) -> Iterator[Guard]:
    """Clocks were held down as much in one arm as in the other; no guard without a GPU."""
    shares: dict[str, list[float]] = {}
    for (name, _, where), window in records.windows.items():
        if where == cell and name in {BASELINE, arm}:
            for field in _THROTTLE:
                shares.setdefault(name, []).extend(window.gpu(field))
    if not shares.get(BASELINE) and not shares.get(arm):
        return
    name = "clocks were held down alike"
    if not shares.get(BASELINE) or not shares.get(arm):
        yield Guard(name, None, "one arm gave no reading of it", arm=arm)
        return
    theirs, own = (sum(shares[each]) / len(shares[each]) for each in (BASELINE, arm))
    said = f"{own:.0%} of the time in the {arm}, {theirs:.0%} in the baseline"
    yield Guard(name, True if abs(own - theirs) <= _THROTTLED_APART else None, said, arm=arm)
