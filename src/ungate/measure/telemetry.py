"""GPU readings and CPU time of a server while it is loaded, on one clock with the load's phases and tokens."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import psutil

from ungate.measure.fields import Field, fields

__all__ = ["Column", "Recorder", "Series", "Window"]

_COUNTERS_S = 1.0
_PIDS_S = 5.0  # looking through all processes takes the load client's turn for 20 ms on a small machine


@dataclass(frozen=True, slots=True)
class Column:
    """One reading over time; a value None could not be read at that moment."""

    name: str
    unit: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """Means over one phase. ``gpus`` maps ``0/power`` and the like to a mean, None where nothing was read.

    ``cpu_cores`` is the CPU time of the server's processes a second (2.0: two cores busy), ``tokens_per_second`` what
    the load saw, ``cpu_s_per_token`` and ``joules_per_token`` their quotients, None without tokens or reading. Energy
    is the GPUs' own counter where they have one, else mean power times time; ``N/energy`` is what a GPU used, in J.
    ``counters`` maps each of the server's own counters to how much it grew (for a gauge: last less first value).
    """

    phase: str
    seconds: float
    cpu_cores: float | None
    tokens_per_second: float | None
    cpu_s_per_token: float | None
    joules_per_token: float | None
    gpus: tuple[tuple[str, float | None], ...] = ()
    counters: tuple[tuple[str, float | None], ...] = ()

    def gpu(self, name: str) -> tuple[float, ...]:
        """The means of one field, of the GPUs that gave it."""
        return tuple(value for key, value in self.gpus if key.endswith(f"/{name}") and value is not None)


@dataclass(frozen=True, slots=True)
class Series:
    """Samples in time order. ``times`` are seconds since the recorder began; every column has as many values.

    Columns: ``cpu`` (s, cumulative, of the process tree), ``tokens`` (cumulative, None while no load reports any),
    ``N/FIELD`` for GPU N, and the server's counters under their own names. ``phases`` are (name, begin,
    end) in seconds.
    """

    times: tuple[float, ...]
    columns: tuple[Column, ...]
    phases: tuple[tuple[str, float, float], ...]

    def column(self, name: str) -> tuple[float | None, ...]:
        """The values of one column; empty when there is none of that name."""
        return next((column.values for column in self.columns if column.name == name), ())

    def window(self, phase: str) -> Window | None:
        """The means over the last phase of that name; None when it has fewer than two samples."""
        spans = [(begin, end) for name, begin, end in self.phases if name == phase]
        if not spans:
            return None
        begin, end = spans[-1]
        inside = [place for place, moment in enumerate(self.times) if begin <= moment <= end]
        if len(inside) < 2:
            return None
        seconds = self.times[inside[-1]] - self.times[inside[0]]
        cpu, tokens = self._growth("cpu", inside), self._growth("tokens", inside)
        means: dict[str, float | None] = {}
        for column in self.columns:
            if column.name.endswith("/energy"):
                means[column.name] = self._growth(column.name, inside)
            elif "/" in column.name:
                values = [value for place in inside if (value := column.values[place]) is not None]
                means[column.name] = sum(values) / len(values) if values else None
        joules = _joules(means, seconds)
        return Window(
            phase,
            seconds,
            cpu / seconds if cpu is not None and seconds else None,
            tokens / seconds if tokens is not None and seconds else None,
            cpu / tokens if cpu is not None and tokens else None,
            joules / tokens if joules is not None and tokens else None,
            tuple(means.items()),
            tuple((column.name, self._growth(column.name, inside)) for column in self.columns if ":" in column.name),
        )

    def _growth(self, name: str, inside: Sequence[int]) -> float | None:
        values = self.column(name)
        known = [value for place in inside if values and (value := values[place]) is not None]
        return known[-1] - known[0] if len(known) > 1 else None


def _joules(means: Mapping[str, float | None], seconds: float) -> float | None:
    """The energy of all GPUs; None where a GPU tells neither its energy nor its power."""
    gpus = {name.partition("/")[0] for name in means if name.endswith("/power")}
    each: list[float] = []
    for gpu in gpus:
        energy, power = means.get(f"{gpu}/energy"), means[f"{gpu}/power"]
        if energy is None and power is None:
            return None
        each.append(energy if energy is not None else (power or 0.0) * seconds)
    return sum(each) if each else None


class Recorder:
    """Samples in a thread for the length of a block, ten times a second unless told otherwise.

    ``pids`` gives the server's living processes and is asked every five seconds; their CPU time is summed so that one
    that ends does not take its share away. Without an NVIDIA GPU only CPU and tokens are recorded. ``counters`` gives
    the server's own counters (see :func:`ungate.measure.counters.chosen`) and is asked once a second in a thread
    of its own, so that a server that does not answer holds up nothing.
    """

    def __init__(
        self,
        pids: Callable[[], Sequence[int]] | Sequence[int],
        *,
        interval_s: float = 0.1,
        counters: Callable[[], Mapping[str, float]] | None = None,
    ) -> None:
        self._pids = pids if callable(pids) else lambda: pids
        self._interval_s = interval_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ungate-telemetry", daemon=True)
        self._begun = time.monotonic()
        self._times: list[float] = []
        self._rows: list[dict[str, float | None]] = []
        self._phases: list[tuple[str, float, float]] = []
        self._cpu: dict[int, float] = {}
        self._tokens: int | None = None
        self._ask_counters = counters
        self._counters: Mapping[str, float] = {}
        self._fields: tuple[Field, ...] = ()
        self._gpus: dict[int, Mapping[str, float | None]] = {}

    def tokens(self, count: int) -> None:
        """The load's token counter; it starts again at 0 with each load run."""
        self._tokens = count

    def busiest(self) -> float | None:
        """The utilisation of the busiest GPU now, in percent; None without a GPU that tells it."""
        found = [
            value for gpu, row in tuple(self._gpus.items()) if (value := row.get(f"{gpu}/utilisation")) is not None
        ]
        return max(found, default=None)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Name what happens in a block: idle, warm-up, a cell."""
        begin = time.monotonic() - self._begun
        self._tokens = None
        try:
            yield
        finally:
            self._phases.append((name, begin, time.monotonic() - self._begun))

    def series(self) -> Series:
        """Everything so far; callable at any time."""
        count = len(self._rows)
        names = ["cpu", "tokens", *sorted({name for row in self._rows[:count] for name in row} - {"cpu", "tokens"})]
        units = {"cpu": "s", "tokens": "token", **{field.name: field.unit for field in self._fields}}
        columns = tuple(
            Column(name, units.get(name.rpartition("/")[2], ""), tuple(row.get(name) for row in self._rows[:count]))
            for name in names
        )
        return Series(tuple(self._times[:count]), columns, tuple(self._phases))

    def __enter__(self) -> Recorder:
        self._begun = time.monotonic()
        self._thread.start()
        if self._ask_counters is not None:
            threading.Thread(target=self._poll, name="ungate-counters", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join(5.0)

    def _poll(self) -> None:
        assert self._ask_counters is not None
        while not self._end.wait(_COUNTERS_S):
            self._counters = self._ask_counters()

    def _run(self) -> None:
        with _gpus() as (nvml, handles):
            self._fields = fields() if handles else ()
            readers = [
                threading.Thread(target=self._watch_gpu, args=(number, nvml, handle), name=f"ungate-gpu-{number}")
                for number, handle in enumerate(handles)
            ]
            for reader in readers:
                reader.start()
            pids: Sequence[int] = ()
            asked = -_PIDS_S
            while True:
                now = time.monotonic()
                if now - asked >= _PIDS_S:
                    pids, asked = self._pids(), now
                row: dict[str, float | None] = {"cpu": self._cpu_s(pids), "tokens": self._tokens, **self._counters}
                for readings in tuple(self._gpus.values()):
                    row.update(readings)
                self._times.append(now - self._begun)
                self._rows.append(row)
                if self._end.wait(max(0.0, self._interval_s - (time.monotonic() - now))):
                    break
            for reader in readers:
                reader.join(5.0)

    def _watch_gpu(self, number: int, nvml: Any, handle: Any) -> None:
        """A thread a GPU: one reading of PCIe traffic blocks for 20 ms, and eight GPUs would hold each other up."""
        slow: dict[str, float | None] = {}
        read_slow = -1.0
        while not self._end.is_set():
            now = time.monotonic()
            if now - read_slow >= 1.0:
                slow = {f"{number}/{f.name}": _guarded(f, nvml, handle) for f in self._fields if f.slow}
                read_slow = now
            quick = {f"{number}/{f.name}": _guarded(f, nvml, handle) for f in self._fields if not f.slow}
            self._gpus[number] = {**quick, **slow}
            self._end.wait(max(0.0, self._interval_s - (time.monotonic() - now)))

    def _cpu_s(self, pids: Sequence[int]) -> float:
        for pid in pids:
            with contextlib.suppress(psutil.Error):
                times = psutil.Process(pid).cpu_times()
                self._cpu[pid] = times.user + times.system
        return sum(self._cpu.values())


def _guarded(field: Field, nvml: Any, handle: Any) -> float | None:
    """A field that this GPU or driver does not have reads as None, never as 0."""
    try:
        return float(field.read(nvml, handle))
    except (nvml.NVMLError, AttributeError):
        return None


@contextlib.contextmanager
def _gpus() -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """NVML and a handle for each GPU; no handle where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield pynvml, ()
        return
    try:
        yield pynvml, tuple(map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount())))
    finally:
        pynvml.nvmlShutdown()
