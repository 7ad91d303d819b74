"""The stage that tells: the page, the next steps in sentences, and what would make another try worth it."""

from __future__ import annotations

import json
from dataclasses import replace

from ungate.errors import shell
from ungate.host.files import write
from ungate.model import Decision
from ungate.pipeline.commands import command, named, where
from ungate.pipeline.policies import NAME, tensor_parallel
from ungate.pipeline.records import Context, Records, Request
from ungate.plain import plain

__all__ = ["fingerprint", "following", "reopen", "tell"]

_MOST_PAIRS = 32  # that every command takes


def tell(request: Request, records: Records, context: Context) -> Records:
    """Render the run's document to one HTML page in the run folder."""
    from ungate.report import render

    context.report("writing the report")
    told = json.loads((request.folder / "run.json").read_text(encoding="utf-8"))
    page = request.folder / "report.html"
    write(page, render(told).encode("utf-8"))
    return replace(records, page=page)


def fingerprint(request: Request, records: Records) -> dict[str, object]:
    """What the result holds for: packages, edits, switches, machine; a reading that is missing stays null.

    Of the server's command only what decides the outcome is kept: it may hold keys, and a ledger is shared.
    """
    facts = records.facts
    arms = {arm.name: arm for arm in records.arms}
    return {
        "packages": {package.name: package.version for package in records.packages},
        "series": records.series.digest if records.series else None,
        "edited": dict(records.series.before) if records.series else {},
        "arguments": {name: list(arm.arguments) for name, arm in arms.items()},
        "tensor_parallel": tensor_parallel(request.command),
        "stopped": records.stopped,
        "same_arms": request.same,
        "swapped": request.swap,
        "driver": facts.driver if facts is not None else None,
        "gpus": [gpu.name for gpu in facts.gpus] if facts is not None else None,
        "links": plain(facts.links) if facts is not None else None,
    }


def reopen(request: Request, records: Records) -> str:
    """The condition under which a result that is no keep would be worth trying again."""
    if not records.stopped and (
        not records.verdicts or all(verdict.decision is Decision.KEEP for verdict in records.verdicts)
    ):
        return ""
    if request.same:
        return ""
    versions = ", ".join(f"{package.name} other than {package.version}" for package in records.packages)
    return f"{versions}, another driver, or another link between the GPUs"


def following(request: Request, records: Records) -> list[str]:
    """What to do next, a sentence each; first what stopped the run, then what the stages that did not run need."""
    if records.stopped:
        sentences = [f"The run stopped early: {records.stopped}."]
        if request.recipe.instead:
            sentences.append(f"What can help here instead: {request.recipe.instead}.")
        return sentences
    if not records.verdicts:
        return [*_open_elsewhere(request, records), *_needs(request, records)]
    several = len({verdict.arm for verdict in records.verdicts}) > 1
    more = min(2 * records.plan.pairs, _MOST_PAIRS) if records.plan is not None else _MOST_PAIRS
    sentences = []
    for verdict in records.verdicts:
        cell = f"{verdict.cell}, {verdict.arm}" if several else str(verdict.cell)
        match verdict.decision:
            case Decision.KEEP:
                sentences.append(f"{cell}: keep.")
            case Decision.REVERT:
                sentences.append(f"{cell}: revert. Nothing has to be undone: the installed packages were not touched.")
            case Decision.INCONCLUSIVE if request.same:
                sentences.append(f"{cell}: both arms are the same, so this is the noise of this machine.")
            case Decision.INCONCLUSIVE if verdict.ratio is None:
                sentences.append(f"{cell}: not measured. Mend what the reason names, then run it again.")
            case Decision.INCONCLUSIVE:
                sentences.append(
                    f"{cell}: undecided. More pairs narrow the interval: the same command with --pairs {more}"
                )
    return [*sentences, *_permanent(request, records)]


def _permanent(request: Request, records: Records) -> list[str]:
    """How to make a keep permanent: everywhere, or only where the policy says so."""
    policy = records.policy
    if policy is None or policy.nowhere:
        return []
    push = command("patch push", request.recipe, request.environment, request.target)
    if not request.recipe.entries or (records.chain is not None and records.series is None):
        words = " ".join([*(f"{key}={value}" for key, value in policy.environment.items()), *policy.arguments])
        if not words:
            return ["It is the server's default."]
        if not policy.everywhere:
            return [f"Start the server with {words} only where it helps: see {request.folder / NAME}"]
        return [f"Make it permanent: start the server with {words}."]
    if policy.everywhere:
        return [f"Make it permanent: {push}"]
    source = f" {named(request.recipe)}" if request.recipe.file else ""
    policy_file = f"{shell(request.folder / NAME)}{where(request.environment)}"
    return [f"Make it permanent where it helps: ungate patch push{source} --policy {policy_file}"]


def _open_elsewhere(request: Request, records: Records) -> list[str]:
    """The further arms whose packages let the target through as they are: the way that needs no edit."""
    return [
        f"{there.arm} needs no edit: its packages let {request.target} through. Compare it before anything is opened."
        for there in records.elsewhere
        if there.flag and there.usable
    ]


def _again(request: Request) -> str:
    """The run command up to its target, on the same environment."""
    return command("run", request.recipe, request.environment, request.target)


def _needs(request: Request, records: Records) -> list[str]:
    again = _again(request)
    needs = []
    if not records.artifacts:
        needs.append(
            f"build compiles the edited kernels; it needs the CUDA toolkit (nvcc) and no GPU: {again} --until build"
        )
    needs.append(f"launch needs a machine with {request.target} GPUs, and the server's command line after '--'.")
    needs.append(f"measure and judge need the same: {again} -- SERVER COMMAND")
    return needs
