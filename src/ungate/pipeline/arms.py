"""The arms of a run: the baseline first, then everything that is compared with it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ungate.errors import Refusal
from ungate.host.progress import Report
from ungate.model import Arm, Variant
from ungate.pipeline.elsewhere import placed, release, swapped
from ungate.pipeline.environment import base_environment
from ungate.pipeline.records import Records, Request

if TYPE_CHECKING:
    from ungate.launch import Engine, Server

__all__ = ["BASELINE", "CANDIDATE", "alike", "arms", "begin", "compared", "engine_of", "names"]

BASELINE, CANDIDATE = "baseline", "candidate"


def compared(request: Request) -> tuple[str, ...]:
    """The names of the arms that are compared with the baseline, in the order they run."""
    return (CANDIDATE, *(variant.name for variant in (*request.recipe.arms, *request.arms)))


def names(request: Request) -> tuple[str, ...]:
    """The names of all arms, the baseline first."""
    return (BASELINE, *compared(request))


def engine_of(request: Request, arm: Arm | None = None) -> Engine:
    """The recipe's engine file, or the one that the command line looks like; an arm's own command decides for it."""
    from ungate.launch import detect, engine

    if arm is not None and arm.command:
        return detect(arm.command)
    return engine(request.recipe.engine) if request.recipe.engine else detect(request.command)


def arms(request: Request, records: Records, report: Report) -> tuple[Arm, ...]:
    """Every arm. The baseline is the user's command with what the recipe's baseline adds.

    The candidate is the same command with the overlay, the recipe's environment and its arguments; further arms are
    what their variants say. Refusal where the user's command already has what an arm adds.
    """
    recipe = request.recipe
    base = base_environment(request)
    baseline = Arm(BASELINE, {**base, **recipe.baseline.environment}, recipe.baseline.arguments)
    overlay = records.overlay.environment if records.overlay is not None else {}
    candidate = Arm(
        CANDIDATE,
        {**base, **overlay, **recipe.environment},
        recipe.arguments,
        records.series.digest if records.series is not None else "",
    )
    if request.same:
        candidate = Arm(CANDIDATE, baseline.environment, baseline.arguments)
    if request.swap:
        baseline, candidate = (
            Arm(BASELINE, candidate.environment, candidate.arguments, candidate.series),
            Arm(CANDIDATE, baseline.environment, baseline.arguments, baseline.series),
        )
    others = [_variant(variant, base, request, records, report) for variant in (*recipe.arms, *request.arms)]
    found = (baseline, candidate, *others)
    for arm in found:
        _tell_apart(request, arm)
    return found


def _tell_apart(request: Request, arm: Arm) -> None:
    # A flag that the user's own command already carries would switch the feature on in every arm.
    options = {word for word in arm.arguments if word.startswith("-")}
    if options & set(arm.command or request.command):
        raise Refusal(
            f"The server command already has {' '.join(arm.arguments)}, so both arms would run the feature.",
            f"Leave it out after '--': it is added to the {arm.name} only.",
        )


def alike(one: Arm, other: Arm) -> bool:
    """Whether two arms differ in nothing, so that comparing them measures noise."""
    same = (one.arguments, one.command) == (other.arguments, other.command)
    return same and dict(one.environment) == dict(other.environment)


def _variant(variant: Variant, base: Mapping[str, str], request: Request, records: Records, report: Report) -> Arm:
    environment = dict(base)
    series, command, arguments = "", variant.command, variant.arguments
    there = next((each for each in records.elsewhere if each.arm == variant.name), None)
    packages = there.packages if there is not None else ()
    if variant.place is not None:
        environment = placed(request, variant.place, packages)
        series = " ".join(f"{name}=={version}" for name, version in packages) or str(variant.place)
        command = command or swapped(request.command, variant.place)
    elif variant.release:
        environment |= release(variant.release, base, report)
        series = "+".join(variant.release)
    if variant.feature and (there is None or there.usable):
        environment |= request.recipe.environment
        arguments = (*request.recipe.arguments, *arguments)
    return Arm(variant.name, {**environment, **variant.environment}, arguments, series, command)


def begin(request: Request, arm: Arm, port: int) -> AbstractContextManager[Server]:
    """One start of one arm, as a context manager that yields the server."""
    from ungate.launch import serve

    return serve(
        arm.command or request.command,
        engine=engine_of(request, arm),
        environment=arm.environment,
        port=port,
        folder=request.folder / "logs" / arm.name,
        deadline_s=request.start_deadline_s,
        arguments=arm.arguments,
    )
