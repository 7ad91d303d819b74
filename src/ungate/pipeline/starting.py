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
from ungate.measure import metrics, telemetry
from ungate.measure.telemetry import Window
from ungate.model import Arm, Cell, Sample
from ungate.pipeline import readings
from ungate.pipeline.arms import begin
from ungate.pipeline.loading import loaded, told
from ungate.pipeline.records import Context, EarlyEnd, Request, StartRecord

__all__ = ["THROUGHPUT", "Start", "one"]

THROUGHPUT = "output_tokens_per_second"

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

    Where the server hangs or ends in one cell, those that are left get a fresh server. ``seed`` decides the prompts:
    arms that are compared get the same ones. ``then`` is called after the load, while the server still runs.
    """
    begun = time.monotonic()
    start = _Start(request, arm, number, earlier, context, seed, folder, then, _Caches(arm))
    left = tuple(cells)
    try:
        while left:
            left = start.serve(left)
    except Refusal as refusal:
        done = {sample.cell for sample in start.samples}
        metric = request.recipe.metric
        start.samples += [
            Sample(arm.name, number, cell, metric, None, "", refusal.what) for cell in cells if cell not in done
        ]
        start.notes.append(refusal.what)
    ready = start.ready
    record = StartRecord(
        arm.name,
        number,
        None if ready is None else ready.seconds,
        "; ".join(dict.fromkeys(start.notes)),
        seconds=time.monotonic() - begun,
        settled=None if ready is None else ready.settled,
        rounds=0 if ready is None else len(ready.rounds),
        compiled=None if ready is None else start.caches.added(),
        early=tuple(start.early),
    )
    return Start(record, tuple(start.samples), tuple(start.rows), start.windows, start.idle)


class _Start:
    """What :func:`one` has so far: usually of one server, of more where one broke."""

    def __init__(
        self,
        request: Request,
        arm: Arm,
        number: int,
        earlier: Sequence[Sample],
        context: Context,
        seed: int,
        folder: str,
        then: Callable[[Server], None],
        caches: _Caches,
    ) -> None:
        self._request, self._arm, self._number, self._earlier, self._context = request, arm, number, earlier, context
        self._seed, self._folder, self._then = seed, folder, then
        self._begun = time.monotonic()
        self.caches = caches
        self.samples: list[Sample] = []
        self.rows: list[dict[str, object]] = []
        self.windows: dict[tuple[str, int, Cell], Window] = {}
        self.early: list[EarlyEnd] = []
        self.notes: list[str] = []
        self.ready: Readiness | None = None
        self.idle: Window | None = None

    def serve(self, cells: Sequence[Cell]) -> tuple[Cell, ...]:
        """Start a server and load these cells in turn; returns those that a break left over."""
        arm, number = self._arm, self._number
        left = list(cells)
        broken = False
        with begin(self._request, arm, free_port()) as server:
            steps = told(server, server.engine.progress)
            ready = wait_ready(server, cells[0], report=self._context.report, counters=steps)
            self.ready = self.ready or ready
            shift = time.monotonic() - self._begun
            with (
                telemetry.Recorder(server.pids, counters=told(server, server.engine.counters)) as recorder,
                Watch(server, counters=steps, gpu=recorder.busiest) as watch,
            ):
                with recorder.phase("idle"):
                    time.sleep(_IDLE_S)
                while left and not broken:
                    cell = left.pop(0)
                    broken = self._load(cell, server, recorder, watch)
            series = recorder.series()
            if not left:
                self._then(server)
            stopped = server.stop()
        first = not self.rows
        self.rows += readings.rows(series, arm.name, number, since=0.0 if first else shift)
        self.windows |= {(arm.name, number, cell): window for cell in cells if (window := series.window(str(cell)))}
        self.idle = self.idle or series.window("idle")
        if said := _afterwards(ready, stopped):
            self.notes.append(said)
        if broken and left:
            self.notes.append(f"the cells after {cell} got a fresh server")
        return tuple(left)

    def _load(self, cell: Cell, server: Server, recorder: telemetry.Recorder, watch: Watch) -> bool:
        """Load one cell and keep what it gave; whether the server is of no more use."""
        with recorder.phase(str(cell)):
            found = loaded(
                self._request,
                self._arm,
                cell,
                server,
                recorder,
                watch,
                self._earlier,
                seed=self._seed,
                compiled=self.caches.added,
            )
        place = self._request.folder / self._folder / f"{self._number:02d}-{self._arm.name}-{cell}.npz"
        metrics.write_raw(found.result, place)
        self.samples += metrics.samples(found.result, arm=self._arm.name, start=self._number)
        if found.early is not None:
            self.early.append(found.early)
        return found.broken


def _afterwards(ready: Readiness, stopped: Stopped) -> str:
    """What a start left behind, or what was odd about it, in words; empty where all was well."""
    words = [] if ready.settled else ["the times of its first rounds had not settled"]
    words += ready.notes
    if stopped.leaked:
        words.append(f"it left {len(stopped.leaked)} shared-memory segments, which were removed")
    if not stopped.port_free:
        words.append("its port was still taken afterwards")
    return "; ".join(words)


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
