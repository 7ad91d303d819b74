"""A profiler trace of one arm, where the recipe's proof asks for the name of a kernel or an operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ungate.errors import Refusal
from ungate.launch import Engine, Server
from ungate.measure import answers, kernels
from ungate.measure.answers import Rung
from ungate.model import Arm, Cell
from ungate.pipeline.records import Request

__all__ = ["profiling", "traced"]

_TOKENS = 4  # a step each: what a graph replays is seen in one, and a trace of many is hundreds of megabytes


def profiling(request: Request, arm: Arm, engine: Engine, folder: Path) -> Arm:
    """The arm with what its server must be started with so that it can be traced; unchanged where nothing is needed."""
    if engine.profiler is None or not _wanted(request):
        return arm
    folder.mkdir(parents=True, exist_ok=True)
    arguments, environment = engine.profiler.prepared(folder, _roots(request))
    return replace(arm, arguments=(*arm.arguments, *arguments), environment={**arm.environment, **environment})


def traced(request: Request, server: Server, folder: Path) -> Path | None:
    """Let the profiler run while every cell's shape is asked once; the folder of the traces, None without any.

    A profiler that does not answer leaves the proof open and is no fault of the arm.
    """
    profiler = server.engine.profiler
    if profiler is None or not _wanted(request):
        return None
    body = profiler.payload(folder)
    try:
        with kernels.profiled(server.url, profiler.start, profiler.stop, body=body, folder=folder):
            answers.collect(server.url, server.model, _shapes(request.recipe.cells))
    except Refusal:
        return None
    return folder


def _wanted(request: Request) -> bool:
    return bool({"kernel", "operator"} & set(request.recipe.proof))


def _shapes(cells: Sequence[Cell]) -> tuple[Rung, ...]:
    """The cells with few output tokens: which kernel runs follows from the number of rows."""
    return tuple(dict.fromkeys(Rung(cell.concurrency, cell.prompt_tokens, _TOKENS) for cell in cells))


def _roots(request: Request) -> tuple[Path, ...]:
    """Where the server's packages may lie: the environment's folders, and those beside the program it is started by."""
    program = Path(request.command[0]) if request.command else Path()
    beside = program.parent.parent.glob("lib/python3*/site-packages") if program.is_absolute() else ()
    return (*request.environment.roots, *beside)
