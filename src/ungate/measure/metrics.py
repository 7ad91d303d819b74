"""The metrics of a load run as samples with units, and the raw token times as a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from ungate.measure.result import FEWEST_DRIFT, LoadResult, Spread
from ungate.model import Sample

__all__ = ["samples", "write_raw"]


_SIGNS = frozenset({"zero_gap_share", "cached_share", "failed_share", "client_lag_p99", "load_seconds", "speed_drift"})
"""They tell why a cell is invalid, and so are kept when it is."""

_UNTOLD = {
    "cached_share": "the server does not tell how many prompt tokens came from its prefix cache",
    "speed_drift": f"the load was cut short, or a half of it held fewer than {FEWEST_DRIFT} tokens",
}


def samples(result: LoadResult, *, arm: str, start: int) -> tuple[Sample, ...]:
    """Every metric of one cell of one server start; one that does not exist or must not be compared is None.

    The note gives the reason, or what must be known about a value that is there.

    Latencies are in seconds, ``zero_gap_share``, ``cached_share`` and ``failed_share`` are shares
    of 1. ``load_seconds`` is how long the whole load lasted, its warm-up included, ``speed_drift`` the
    throughput of its second half over that of its first.
    """
    values: list[tuple[str, float | None, str]] = [
        ("output_tokens_per_second", result.tokens_per_second, "token/s"),
        ("requests_per_second", result.requests_per_second, "request/s"),
    ]
    for name, latency in (("ttft", result.ttft), ("tpot", result.tpot), ("itl", result.itl), ("e2e", result.e2e)):
        values += [(f"{name}_{part}", _part(latency, part), "s") for part in ("mean", "p50", "p90", "p99")]
    answered = result.completed + result.failed
    values += [
        ("zero_gap_share", result.zero_gaps, "1"),
        ("cached_share", result.cached, "1"),
        ("failed_share", result.failed / answered if answered else None, "1"),
        ("client_lag_p99", result.lag_p99_s, "s"),
        ("load_seconds", result.seconds, "s"),
        ("speed_drift", result.drift, "1"),
    ]
    known = "; ".join(filter(None, (result.stopped, *result.notes)))
    rows = []
    for name, value, unit in values:
        unfit = result.unfit(name)
        kept = value if not unfit or name in _SIGNS else None
        untold = _UNTOLD.get(name, "") if value is None else ""
        rows.append(Sample(arm, start, result.cell, name, kept, unit, unfit or untold or known))
    return tuple(rows)


def _part(latency: Spread | None, part: str) -> float | None:
    if latency is None:
        return None
    value: float = getattr(latency, part)
    return value


def write_raw(result: LoadResult, path: Path) -> Path:
    """Keep every request and token time in a compressed ``.npz`` and return its path; the file is replaced whole.

    ``times`` holds the arrivals of all requests behind one another, in seconds after the first start, and
    ``offsets[i]:offsets[i+1]`` is request ``i``'s part. ``due``, ``start``, ``end`` are one value a request on the same
    clock, ``tokens`` the server's count (-1 where it sent none), ``fault`` the reason of a failure or ''.
    """
    outcomes = result.outcomes
    origin = min((outcome.due for outcome in outcomes), default=0.0)
    counts = [len(outcome.times) for outcome in outcomes]
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".npz")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            np.savez_compressed(
                stream,
                cell=np.array(str(result.cell)),
                index=np.array([outcome.index for outcome in outcomes], dtype=np.int64),
                due=np.array([outcome.due - origin for outcome in outcomes]),
                start=np.array([outcome.start - origin for outcome in outcomes]),
                end=np.array([outcome.end - origin for outcome in outcomes]),
                times=np.array([moment - origin for outcome in outcomes for moment in outcome.times]),
                offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
                tokens=np.array([-1 if o.tokens is None else o.tokens for o in outcomes], dtype=np.int64),
                fault=np.array([outcome.fault for outcome in outcomes], dtype=np.str_),
            )
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path
