"""One start of one arm under load: every cell, with telemetry, and what it left in the JIT caches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ungate.errors import Refusal
from ungate.launch import Readiness, Server, Stopped, Watch, wait_ready
from ungate.launch.ports import free_port
from ungate.measure import counters, load, metrics, telemetry
from ungate.measure.collapse import Collapse, curves
from ungate.measure.load import Progress
from ungate.measure.result import Stop
from ungate.measure.telemetry import Window
from ungate.model import Arm, Cell, Sample
from ungate.pipeline import readings
from ungate.pipeline.arms import BASELINE, begin
from ungate.pipeline.records import Context, Request, StartRecord

__all__ = ["THROUGHPUT", "Start", "one", "told"]

THROUGHPUT = "output_tokens_per_second"

_STALL_S = 300.0  # a request may stand still so long: whether the server still works is what the watch finds out
_IDLE_S = 1.0  # the server at rest, for the bands of the spin rule
_COMPILED = frozenset({".so", ".cubin", ".fatbin", ".ptx", ".o"})


@dataclass(frozen=True, slots=True)
class Start:
    """What one start gave; ``idle`` is the server at rest, None where that was not read."""

    record: StartRecord
    samples: tuple[Sample, ...]
    rows: tuple[dict[str, object], ...] = ()
    windows: Mapping[tuple[str, int, Cell], Window] = field(default_factory=dict)
    idle: Window | None = None


def one(
    request: Request,
    arm: Arm,
    number: int,
    cells: Sequence[Cell],
    earlier: Sequence[Sample],
    context: Context,
    *,
    seed: int,
    folder: str = "raw",
    then: Callable[[Server], None] = lambda server: None,
) -> Start:
    """Start the arm and load every cell. A start that fails is recorded with its reason, its readings are missing.

    ``seed`` decides the prompts: arms that are compared get the same ones. ``then`` is called after the load, while
    the server still runs.
    """
    samples: list[Sample] = []
    begun = time.monotonic()
    try:
        caches = _Caches(arm)
        with begin(request, arm, free_port()) as server:
            engine = server.engine
            steps = told(server, engine.progress)
            ready = wait_ready(server, cells[0], report=context.report, counters=steps)
            with (
                telemetry.Recorder(server.pids, counters=told(server, engine.counters)) as recorder,
                Watch(server, counters=steps) as watch,
            ):
                with recorder.phase("idle"):
                    time.sleep(_IDLE_S)
                for cell in cells:
                    with recorder.phase(str(cell)):
                        result = load.run(
                            server.url,
                            server.model,
                            cell,
                            seconds=request.load_s,
                            seed=seed,
                            stall_s=_STALL_S,
                            cache_hits=engine.cache_hits,
                            metrics=engine.metrics,
                            on_progress=_look(_collapse(request, arm, cell, earlier), recorder, watch),
                        )
                    metrics.write_raw(result, request.folder / folder / f"{number:02d}-{arm.name}-{cell}.npz")
                    samples += metrics.samples(result, arm=arm.name, start=number)
            series = recorder.series()
            then(server)
            stopped = server.stop()
        windows = {(arm.name, number, cell): window for cell in cells if (window := series.window(str(cell)))}
        record = StartRecord(
            arm.name,
            number,
            ready.seconds,
            _afterwards(ready, stopped),
            seconds=time.monotonic() - begun,
            settled=ready.settled,
            rounds=len(ready.rounds),
            compiled=caches.added(),
        )
        rows = readings.rows(series, arm.name, number)
        return Start(record, tuple(samples), rows, windows, series.window("idle"))
    except Refusal as refusal:
        done = {sample.cell for sample in samples}
        missing = [
            Sample(arm.name, number, cell, request.recipe.metric, None, "", refusal.what)
            for cell in cells
            if cell not in done
        ]
        record = StartRecord(arm.name, number, None, refusal.what, seconds=time.monotonic() - begun)
        return Start(record, (*samples, *missing))


def _afterwards(ready: Readiness, stopped: Stopped) -> str:
    """What a start left behind, or what was odd about it, in words; empty where all was well."""
    words = [] if ready.settled else ["the times of its first rounds had not settled"]
    words += ready.notes
    if stopped.leaked:
        words.append(f"it left {len(stopped.leaked)} shared-memory segments, which were removed")
    if not stopped.port_free:
        words.append("its port was still taken afterwards")
    return "; ".join(words)


def told(server: Server, names: Sequence[str]) -> Callable[[], Mapping[str, float]]:
    """Asks the server for those of its counters."""
    return lambda: counters.chosen(server.url, names, server.engine.metrics) if names else {}


def _collapse(request: Request, arm: Arm, cell: Cell, earlier: Sequence[Sample]) -> Collapse:
    """What ends a load of this cell early; of the baseline's nothing does."""
    known = [sample for sample in earlier if sample.arm == BASELINE and sample.cell == cell]
    return Collapse(curves(known) if arm.name != BASELINE else (), request.load_s)


def _look(collapse: Collapse, recorder: telemetry.Recorder, watch: Watch) -> load.OnProgress:
    """Feeds the token counter on, and ends the load when the server is broken or the arm has collapsed."""

    def look(progress: Progress) -> Stop | None:
        recorder.tokens(progress.tokens)
        watch.progress(progress.tokens)
        if watch.fault is not None:
            return Stop(watch.fault.what)
        return collapse.stop(progress, watch.slow)

    return look


class _Caches:
    """The compiled files in the JIT caches that an arm would use, counted before and after."""

    def __init__(self, arm: Arm) -> None:
        from ungate.build.caches import caches as found_caches
        from ungate.patch.caches import caches as arm_caches

        variables = {**os.environ, **arm.environment}
        places = {Path(variables[name]) for each in arm_caches() for name in each.variables if variables.get(name)}
        places |= {each.place(variables) for each in found_caches()}
        # One inside another is counted once.
        self._places = [place for place in places if not any(other in place.parents for other in places)]
        self._before = self._count()

    def _count(self) -> int:
        return sum(
            Path(name).suffix in _COMPILED
            for place in self._places
            if place.is_dir()
            for _, _, files in os.walk(place)
            for name in files
        )

    def added(self) -> int:
        return max(0, self._count() - self._before)
