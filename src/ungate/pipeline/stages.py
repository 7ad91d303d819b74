"""Which stages there are, in which order, and what each is called in the task list."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from ungate.errors import Refusal, shell
from ungate.model import Recipe
from ungate.pipeline import elsewhere, opening, reading
from ungate.pipeline.commands import named
from ungate.pipeline.records import Context, Records, Request, Stage
from ungate.pipeline.telling import tell

__all__ = ["STAGES", "stages_of", "startable"]


def _check(request: Request, records: Records, context: Context) -> Records:
    return elsewhere.look(request, opening.check(request, records, context), context)


def _launch(request: Request, records: Records, context: Context) -> Records:
    # The serving half brings numpy and aiohttp with it, which a run that stops before it does not wait for.
    from ungate.pipeline.launching import launch

    return launch(request, records, context)


def _measure(request: Request, records: Records, context: Context) -> Records:
    from ungate.pipeline.measuring import measure

    return measure(request, records, context)


def _judge(request: Request, records: Records, context: Context) -> Records:
    from ungate.pipeline.judging import judge

    return judge(request, records, context)


def _attribute(request: Request, records: Records, context: Context) -> Records:
    from ungate.pipeline.attributing import attribute

    return attribute(request, records, context)


STAGES: tuple[Stage, ...] = (
    Stage("doctor", "Read the host facts that decide the outcome", reading.doctor),
    Stage("scan", "Find the gates on the way from the flag to the kernel", reading.scan),
    Stage("trace", "Put the gates in order from the flag to the kernel", reading.trace),
    Stage("check", "Check whether they may be opened here", _check),
    Stage("patch", "Open them in an overlay and scan it again", opening.patch),
    Stage("build", "Compile what the edits touch and look into the binary", opening.build),
    Stage("launch", "Start each arm once: ready, outputs equal, path proved", _launch),
    Stage("measure", "Load the arms in turn, each start a fresh server", _measure),
    Stage("judge", "Decide each cell: keep, revert or inconclusive", _judge),
    Stage("attribute", "After a revert, find the cause by experiment", _attribute),
    Stage("report", "Write the report", tell),
)

_SERVER = {"launch", "measure", "judge", "attribute", "report"}


def stages_of(recipe: Recipe, until: str, command: Sequence[str]) -> tuple[Stage, ...]:
    """The stages up to ``until``; Refusal where one of them needs a server command or cells that were not given."""
    names = [stage.name for stage in STAGES]
    if until not in names:
        raise Refusal(f"There is no stage '{until}'.", f"Pass one of these: --until {' | '.join(names)}")
    chosen = STAGES[: names.index(until) + 1]
    serving = any(stage.name in _SERVER for stage in chosen)
    if serving and not command:
        raise Refusal(
            "From the stage 'launch' on, a run needs the server's command line after '--'.",
            f"Add it: ungate run {named(recipe)} -- SERVER COMMAND, or stop before that: --until build",
        )
    if serving and not recipe.cells:
        raise Refusal(
            f"The recipe {recipe.name} names no cell, so there is nothing to load a server with.",
            "Add one to the recipe: [[cells]] with concurrency, prompt_tokens and output_tokens",
        )
    return chosen


def startable(recipe: Recipe, stages: Sequence[Stage], command: Sequence[str], variables: Mapping[str, str]) -> None:
    """Refusal where a server is to be started and cannot be: a build may take an hour before that is tried.

    Its program is not there, or the recipe names an engine that has no file.
    """
    if not command or not any(stage.name in _SERVER for stage in stages):
        return
    if recipe.engine:
        from ungate.launch import engines

        engines.engine(recipe.engine)
    if shutil.which(command[0], path=variables.get("PATH")) is None:
        raise Refusal(
            f"The server's command begins with {command[0]}, and there is no such program that can be started.",
            f"See where it is: command -v {shell(command[0])}",
        )
