"""One cell's load on a running server, and how it ended where it ended early: a collapse is measured, a hang is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ungate.launch import Server, Watch
from ungate.measure import counters, load, telemetry
from ungate.measure.collapse import Collapse, Life, curves
from ungate.measure.load import Progress
from ungate.measure.result import LoadResult, Stop
from ungate.model import Arm, Cell, Sample
from ungate.pipeline.arms import BASELINE
from ungate.pipeline.records import EarlyEnd, Request
from ungate.plain import counted

__all__ = ["Loaded", "loaded", "told"]

_STALL_S = 300.0  # a request may stand still so long: whether the server still works is what the watch finds out
_ANSWER_S = 90.0  # for the token that tells a collapse from a hang; the watch's longest step and its patience


@dataclass(frozen=True, slots=True)
class Loaded:
    """The load's figures; ``early`` is None where it lasted as long as it was to, ``broken``: the server is of no use.

    A load whose figures are not to be used has a reason in ``result.invalid``.
    """

    result: LoadResult
    early: EarlyEnd | None
    broken: bool


def loaded(
    request: Request,
    arm: Arm,
    cell: Cell,
    server: Server,
    recorder: telemetry.Recorder,
    watch: Watch,
    earlier: Sequence[Sample],
    *,
    seed: int,
    compiled: Callable[[], int],
) -> Loaded:
    """Load ``server`` with one cell; ``earlier`` are the samples that tell what the baseline made of it.

    An arm without a token, or without one in half of the load, has collapsed only if the server answers afterwards and
    ``compiled`` (the files added to its JIT caches so far) says that it did not compile meanwhile.
    """
    known = [sample for sample in earlier if sample.arm == BASELINE and sample.cell == cell]
    collapse = Collapse(curves(known) if arm.name != BASELINE else (), request.load_s)
    before = compiled()
    result = load.run(
        server.url,
        server.model,
        cell,
        seconds=request.load_s,
        seed=seed,
        stall_s=_STALL_S,
        cache_hits=server.engine.cache_hits,
        metrics=server.engine.metrics,
        on_progress=_look(collapse, recorder, watch),
    )
    broken = False
    if collapse.silent and watch.fault is None:
        answered = watch.answers(_ANSWER_S)
        if not answered:
            broken = True
            result = _unusable(result, f"the server answered nothing within {_ANSWER_S:.0f} s after a silent load")
        elif files := compiled() - before:
            result = _unusable(
                result,
                f"no token came while it compiled {counted(files, 'file')}",
            )
        else:
            result = replace(result, stopped=f"{result.stopped}; it answered once the load had been given up")
    kind = "unfinished" if result.invalid else "collapsed"
    broken = broken or watch.fault is not None
    if watch.fault is not None and result.stopped:
        kind = "hung" if watch.fault.kind == "hang" else "ended"
        result = _unusable(result, watch.fault.what)
    elif broken:
        kind = "hung"
    early = EarlyEnd(cell, kind, result.seconds, result.stopped) if result.stopped else None
    return Loaded(result, early, broken)


def _unusable(result: LoadResult, why: str) -> LoadResult:
    """The same load with nothing to be taken from it."""
    return replace(
        result,
        stopped=why,
        invalid=tuple(dict.fromkeys((f"stopped early: {why}", *result.invalid))),
        tokens_per_second=None,
        notes=(),
    )


def told(server: Server, names: Sequence[str]) -> Callable[[], Mapping[str, float]]:
    """Asks the server for those of its counters."""
    return lambda: counters.chosen(server.url, names, server.engine.metrics) if names else {}


def _look(collapse: Collapse, recorder: telemetry.Recorder, watch: Watch) -> load.OnProgress:
    """Feeds the token counter on, and ends the load when the server is broken or the arm has collapsed."""

    def look(progress: Progress) -> Stop | None:
        recorder.tokens(progress.tokens)
        watch.progress(progress.tokens)
        if watch.fault is not None:
            return Stop(watch.fault.what)
        return collapse.stop(progress, Life(*watch.silence))

    return look
