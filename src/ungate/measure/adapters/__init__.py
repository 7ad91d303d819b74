"""Public load generators, run and checked again: one file a tool, registered by import.

No exit code of theirs says whether requests failed, and none marks a stream that was cut short. So each request's own
figures are read from the tool's detailed output, judged here, and summarised as those of ungate's client are.
The figures of two tools must never be compared with each other.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ungate.errors import Refusal
from ungate.host.children import run
from ungate.measure.result import LoadResult, summarise
from ungate.measure.stream import Outcome
from ungate.model import Cell

__all__ = ["Adapter", "Job", "Row", "adapter", "judge", "measure", "names", "register"]


@dataclass(frozen=True, slots=True)
class Job:
    """What a tool is asked to do. ``python`` is the interpreter of the environment that the tool is installed in.

    ``tokenizer`` is a local folder; ``output`` the file that the tool is told to write.
    """

    python: Path
    url: str
    model: str
    tokenizer: Path
    cell: Cell
    requests: int
    seed: int
    output: Path


@dataclass(frozen=True, slots=True)
class Row:
    """One request as the tool tells it; seconds. ``start`` None: the tool keeps no start times."""

    start: float | None
    ttft: float
    gaps: tuple[float, ...]
    prompt_tokens: int
    output_tokens: int
    error: str


@dataclass(frozen=True, slots=True)
class Adapter:
    """A tool: its command line for a job, and the rows of its detailed output."""

    name: str
    command: Callable[[Job], Sequence[str]]
    read: Callable[[Path], Sequence[Row]]


_REGISTRY: dict[str, Adapter] = {}


def register(new: Adapter) -> Adapter:
    """Called once by each file of this folder."""
    _REGISTRY[new.name] = new
    return new


def _load() -> dict[str, Adapter]:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _REGISTRY


def names() -> tuple[str, ...]:
    """Every tool that has a file, sorted."""
    return tuple(sorted(_load()))


def adapter(name: str) -> Adapter:
    """The adapter of that name; Refusal when there is none."""
    found = _load().get(name)
    if found is None:
        raise Refusal(f"There is no adapter for '{name}' (there are: {', '.join(names())}).", "Run: ungate run --help")
    return found


def measure(name: str, job: Job, *, deadline_s: float = 1800.0) -> LoadResult:
    """Run a tool and judge what it says, whatever its exit code; Refusal when it does not end or writes nothing."""
    tool = adapter(name)
    log = job.output.with_suffix(".log")
    outcome = run(tool.command(job), deadline_s=deadline_s, log=log)
    if outcome.timed_out or not job.output.exists():
        how = f"did not end within {deadline_s:g} s" if outcome.timed_out else f"wrote no result (exit {outcome.code})"
        raise Refusal(f"The load generator {name} {how}.", f"Read what it said: less {log}")
    return judge(name, tool.read(job.output), job, seconds=outcome.seconds)


def judge(name: str, rows: Sequence[Row], job: Job, *, seconds: float) -> LoadResult:
    """A tool's rows as a load result: each request checked for errors and for the output that was asked for.

    Tools that send text miss the prompt length by a few tokens; that is a note and no fault.
    """
    outcomes = [_outcome(number, row, job.cell) for number, row in enumerate(rows)]
    outcomes += [
        Outcome(number, 0.0, 0.0, 0.0, (), None, None, "", f"{name} tells nothing of this request")
        for number in range(len(rows), job.requests)
    ]
    began = min((o.start for o in outcomes if o.times), default=0.0)
    ended = max((o.end for o in outcomes if o.times), default=0.0)
    timed = all(row.start is not None for row in rows)
    # Without start times all requests seem to begin at once, and their span says nothing about throughput.
    window = (began, ended) if timed else (0.0, 0.0)
    result = summarise(job.cell, name, outcomes, window, lags=(), client_cpu_s=0.0, seconds=seconds)
    lengths = [row.prompt_tokens for row in rows if row.prompt_tokens >= 0]
    if not lengths or min(lengths) == max(lengths) == job.cell.prompt_tokens:
        return result
    note = f"prompts of {min(lengths)} to {max(lengths)} tokens, asked for {job.cell.prompt_tokens}"
    return replace(result, notes=(note,))


def _outcome(number: int, row: Row, cell: Cell) -> Outcome:
    start = row.start or 0.0
    times = [start + row.ttft]
    for gap in row.gaps:
        times.append(times[-1] + gap)
    fault = ""
    if row.error:
        fault = row.error.strip().splitlines()[-1][:160]
    elif row.output_tokens != cell.output_tokens:
        fault = f"{row.output_tokens} output tokens counted, asked for {cell.output_tokens}"
    return Outcome(number, start, start, times[-1], tuple(times), row.output_tokens, row.prompt_tokens, "", fault)
