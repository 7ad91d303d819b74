"""The arms in turn, each start a fresh server, the same cells on each; and the judge at the end."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ungate.errors import Refusal
from ungate.judge import Guard, Plan, decide, floor, order, plan
from ungate.judge.interval import Prior
from ungate.launch import Readiness, Stopped, Watch, wait_ready
from ungate.launch.ports import free_port
from ungate.measure import load, metrics, telemetry
from ungate.measure.load import Progress
from ungate.measure.result import LoadResult, Stop
from ungate.measure.telemetry import Window
from ungate.model import Arm, Cell, Decision, Sample, Verdict
from ungate.pipeline import readings
from ungate.pipeline.launching import BASELINE, CANDIDATE, begin
from ungate.pipeline.records import Context, Records, Request, StartRecord

__all__ = ["COLLAPSE", "design", "judge", "measure"]

COLLAPSE = 0.5
"""A candidate below this share of the baseline's throughput ends a cell's load early; its figure still counts."""

_SURE_S = 2.0  # load seconds before a collapse is believed
_IDLE_S = 1.0  # the server at rest, for the bands of the spin rule
_SPREAD = 0.05  # between starts, until this machine has A/A runs of its own
_THROUGHPUT = "output_tokens_per_second"


def design(request: Request, prior: Prior | None) -> Plan:
    """The plan of a request, from this machine's earlier spread between starts or an assumed one."""
    spread = prior.spread if prior else _SPREAD
    return plan(min_effect=request.min_effect, spread=spread, cells=len(request.recipe.cells), pairs=request.pairs)


def measure(request: Request, records: Records, context: Context) -> Records:
    """Start the arms in the planned order and load every cell at each start.

    A start that fails is recorded with its reason and its readings are missing. When the time budget is
    used up, the measuring ends after a whole pair.
    """
    chosen = design(request, context.prior)
    by_name = {arm.name: arm for arm in records.arms}
    begun = time.monotonic()
    sequence = order(chosen.pairs)
    done: list[_Start] = []
    for number, name in enumerate(sequence):
        if number % 2 == 0 and number and _over(begun, number, request.budget_s):
            late = StartRecord(name, number, None, "left out: the time budget is used up")
            done.append(_Start(late, ()))
            break
        context.report(f"start {number + 1} of {len(sequence)}: {name}", number, len(sequence))
        earlier = [sample for start in done for sample in start.samples]
        one = _one(request, by_name[name], number, earlier, context)
        context.keep(one.samples)
        done.append(one)
    windows = {key: window for one in done for key, window in one.windows.items()}
    idle = next((one.idle for one in done if one.idle is not None), None)
    return replace(
        records,
        plan=chosen,
        starts=(*records.starts, *(one.record for one in done)),
        samples=tuple(sample for one in done for sample in one.samples),
        telemetry=tuple(row for one in done for row in one.rows),
        diagnoses={cell: readings.diagnose(windows, cell, idle) for cell in request.recipe.cells},
    )


def _over(begun: float, done: int, budget_s: float) -> bool:
    """Whether another pair would go beyond the budget, judged by the pairs so far."""
    elapsed = time.monotonic() - begun
    return elapsed + 2 * elapsed / done > budget_s


@dataclass(frozen=True, slots=True)
class _Start:
    """What one start gave."""

    record: StartRecord
    samples: tuple[Sample, ...]
    rows: tuple[dict[str, object], ...] = ()
    windows: readings.Windows = field(default_factory=dict)
    idle: Window | None = None


def _one(request: Request, arm: Arm, number: int, earlier: Sequence[Sample], context: Context) -> _Start:
    cells = request.recipe.cells
    samples: list[Sample] = []
    try:
        with begin(request, arm, free_port()) as server:
            ready = wait_ready(server, cells[0], report=context.report)
            with telemetry.Recorder(server.pids) as recorder, Watch(server) as watch:
                with recorder.phase("idle"):
                    time.sleep(_IDLE_S)
                for cell in cells:
                    with recorder.phase(str(cell)):
                        look = _look(arm, cell, earlier, recorder, watch)
                        result = load.run(
                            server.url,
                            server.model,
                            cell,
                            seconds=request.load_s,
                            seed=number // 2,
                            cache_hits=server.engine.cache_hits,
                            metrics=server.engine.metrics,
                            on_progress=look,
                        )
                    metrics.write_raw(result, request.folder / "raw" / f"{number:02d}-{arm.name}-{cell}.npz")
                    samples += _samples(arm.name, number, result)
            series = recorder.series()
        windows = {(arm.name, number, cell): window for cell in cells if (window := series.window(str(cell)))}
        rows = readings.rows(series, arm.name, number)
        record = StartRecord(arm.name, number, ready.seconds, _afterwards(ready, server.stop()))
        return _Start(record, tuple(samples), rows, windows, series.window("idle"))
    except Refusal as refusal:
        done = {sample.cell for sample in samples}
        missing = [
            Sample(arm.name, number, cell, _THROUGHPUT, None, "token/s", refusal.what)
            for cell in cells
            if cell not in done
        ]
        return _Start(StartRecord(arm.name, number, None, refusal.what), (*samples, *missing))


def _afterwards(ready: Readiness, stopped: Stopped) -> str:
    """What a start left behind, or what was odd about it, in words; empty where all was well."""
    words = [] if ready.settled else ["the times of its first rounds had not settled"]
    words += ready.notes
    if stopped.leaked:
        words.append(f"it left {len(stopped.leaked)} shared-memory segments, which were removed")
    if not stopped.port_free:
        words.append("its port was still taken afterwards")
    return "; ".join(words)


def _look(
    arm: Arm, cell: Cell, earlier: Sequence[Sample], recorder: telemetry.Recorder, watch: Watch
) -> load.OnProgress:
    """Feeds the token counter on, and ends the load when the server is broken or the candidate has collapsed."""
    known = [s.value for s in earlier if s.arm == BASELINE and s.cell == cell and s.metric == _THROUGHPUT and s.value]
    limit = COLLAPSE * statistics.median(known) if known and arm.name == CANDIDATE else 0.0

    def look(progress: Progress) -> Stop | None:
        recorder.tokens(progress.tokens)
        watch.progress(progress.tokens)
        if watch.fault is not None:
            return Stop(watch.fault.what)
        rate = progress.tokens_per_second
        if progress.phase == "measure" and progress.seconds >= _SURE_S and rate is not None and rate < limit:
            return Stop(f"collapsed: {rate:.1f} tok/s against {limit / COLLAPSE:.1f} of the baseline", usable=True)
        return None

    return look


def _samples(arm: str, start: int, result: LoadResult) -> tuple[Sample, ...]:
    """The metrics of a cell; those of an invalid one are missing, with the reason, so that they are never compared."""
    rows = metrics.samples(result, arm=arm, start=start)
    if result.invalid:
        return tuple(replace(row, value=None) for row in rows)
    return tuple(replace(row, note=row.note or result.stopped) for row in rows)


def judge(request: Request, records: Records, context: Context) -> Records:
    """The verdict of every cell, from the pairs of starts that gave both readings, and every guard."""
    cells = request.recipe.cells
    if not records.guards:
        return records  # stopped before any server was started: there is nothing to decide
    if records.plan is None:
        reason = records.stopped or "nothing was measured"
        return replace(records, verdicts=tuple(Verdict(cell, Decision.REVERT, reason) for cell in cells))
    verdicts = []
    for cell in cells:
        mine = [s for s in records.samples if s.cell == cell and s.metric == request.recipe.metric]
        values = {(s.arm, s.start): s.value for s in mine}
        ratios = []
        for pair in range(records.plan.pairs):
            both = {arm: v for (arm, start), v in values.items() if start // 2 == pair and v}
            if len(both) == 2:
                ratios.append(both[CANDIDATE] / both[BASELINE])
        by_arm = [
            [v for (arm, _), v in sorted(values.items(), key=lambda kv: kv[0][1]) if arm == name and v]
            for name in (BASELINE, CANDIDATE)
        ]
        if not ratios:
            why = next((s.note for s in mine if s.value is None and s.note), "no start was measured")
            reason = f"no pair of starts gave a reading of both arms: {why}"
            verdicts.append(Verdict(cell, Decision.INCONCLUSIVE, reason, level=records.plan.level))
            continue
        verdicts.append(
            decide(
                cell,
                ratios,
                (*records.guards, *_measured_guards(mine, records)),
                min_effect=request.min_effect,
                noise=floor(by_arm),
                level=records.plan.level,
                prior=context.prior,
                diagnosis=records.diagnoses.get(cell, ""),
            )
        )
    return replace(records, verdicts=tuple(verdicts))


def _measured_guards(samples: Sequence[Sample], records: Records) -> tuple[Guard, ...]:
    """What the load itself must have shown: no failed request in the candidate's cell."""
    starts = {(sample.arm, sample.start) for sample in samples if sample.value is None}
    broken = [name for name, _ in starts if name == CANDIDATE]
    if not broken:
        return (Guard("every start gave a reading", True, f"{len(samples)} starts"),)
    note = next(sample.note for sample in samples if sample.value is None and sample.arm == CANDIDATE)
    return (Guard("every start gave a reading", None, f"{len(broken)} candidate starts did not: {note}"),)
