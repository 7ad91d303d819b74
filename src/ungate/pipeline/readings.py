"""Telemetry of a start as rows for the report, and what it says about a cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ungate.measure import spin
from ungate.measure.telemetry import Series, Window
from ungate.model import Cell

__all__ = ["Windows", "diagnose", "rows"]

Windows = Mapping[tuple[str, int, Cell], Window]
"""The means of each cell's load: by arm, number of the start, cell."""

_MOST = 120  # points of one reading of one start; more would not be seen


def rows(series: Series, arm: str, start: int, *, since: float = 0.0) -> tuple[dict[str, object], ...]:
    """One row a point: arm, start, seconds, reading (with its unit), value. Cumulative columns become rates.

    ``since`` is added to the seconds: a second server of the same start was recorded that much later.
    """
    step = max(1, len(series.times) // _MOST)
    found: list[dict[str, object]] = []
    for column in series.columns:
        if column.name in {"cpu", "tokens"}:
            points = _rates(series.times, column.values, step)
            reading = "CPU cores in use" if column.name == "cpu" else "tokens per second"
        elif "/" not in column.name:
            points = zip(series.times[::step], column.values[::step], strict=True)
            reading = column.name
        else:
            gpu, _, field = column.name.partition("/")
            points = zip(series.times[::step], column.values[::step], strict=True)
            reading = f"GPU {gpu} {field.replace('_', ' ')} ({column.unit})"
        found += [
            {"arm": arm, "start": start, "seconds": round(since + seconds, 2), "reading": reading, "value": value}
            for seconds, value in points
            if value is not None
        ]
    return tuple(found)


def _rates(times: Sequence[float], values: Sequence[float | None], step: int) -> Iterator[tuple[float, float | None]]:
    step = max(step, 5)  # over half a second: shorter spans show the sampling, not the server
    for before in range(0, len(times) - step, step):
        first, last = values[before], values[before + step]
        seconds = times[before + step] - times[before]
        # A counter that went back belongs to the next load run.
        if first is not None and last is not None and seconds > 0 and last >= first:
            yield times[before + step], (last - first) / seconds


def diagnose(windows: Windows, cell: Cell, idle: Window | None, candidate: str = "candidate") -> str:
    """What an arm's telemetry of a cell says, with the baseline's of the same cell as the healthy load."""
    healthy = [window for (arm, _, where), window in windows.items() if arm == "baseline" and where == cell]
    if not healthy:
        return ""
    band = spin.fit(idle, healthy[0])
    for (arm, _, where), window in windows.items():
        if arm == candidate and where == cell and (found := spin.diagnose(window, band)):
            return f"{found.what[:1].upper()}{found.what[1:]}: {found.evidence}."
    return ""
