"""The stage that tells: the page, the next steps in sentences, and what would make another try worth it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

from ungate.host.files import write
from ungate.model import Decision
from ungate.pipeline.records import Context, Records, Request
from ungate.plain import plain

__all__ = ["fingerprint", "following", "reopen", "tell"]


def tell(request: Request, records: Records, context: Context) -> Records:
    """Render the run's document to one HTML page in the run folder."""
    from ungate.report import render

    context.report("writing the report")
    told = json.loads((request.folder / "run.json").read_text(encoding="utf-8"))
    page = request.folder / "report.html"
    write(page, render(told).encode("utf-8"))
    return replace(records, page=page)


def fingerprint(records: Records) -> dict[str, object]:
    """What the result holds for: package versions, the edits, the machine; a reading that is missing stays null."""
    facts = records.facts
    return {
        "packages": {package.name: package.version for package in records.packages},
        "series": records.series.digest if records.series else None,
        "driver": facts.driver if facts is not None else None,
        "gpus": [gpu.name for gpu in facts.gpus] if facts is not None else None,
        "links": plain(facts.links) if facts is not None else None,
    }


def reopen(request: Request, records: Records) -> str:
    """The condition under which a result that is no keep would be worth trying again."""
    if not records.verdicts or all(verdict.decision is Decision.KEEP for verdict in records.verdicts):
        return ""
    versions = ", ".join(f"{package.name} other than {package.version}" for package in records.packages)
    return f"{versions}, another driver, or another link between the GPUs"


def following(request: Request, records: Records) -> list[str]:
    """What to do next, a sentence each; first what stopped the run, then what the stages that did not run need."""
    name, target = request.recipe.name, request.target
    if records.stopped:
        sentences = [f"The run stopped early: {records.stopped}."]
        if request.recipe.instead:
            sentences.append(f"What can help here instead: {request.recipe.instead}.")
        return sentences
    if not records.verdicts:
        return _needs(request, records)
    sentences = []
    for verdict in records.verdicts:
        match verdict.decision:
            case Decision.KEEP:
                sentences.append(f"{verdict.cell}: keep. Make it permanent: ungate patch push {name} --target {target}")
            case Decision.REVERT:
                sentences.append(
                    f"{verdict.cell}: revert. Nothing has to be undone: the installed packages were not touched."
                )
            case Decision.INCONCLUSIVE if verdict.ratio is None:
                sentences.append(f"{verdict.cell}: not measured. Mend what the reason names, then run it again.")
            case Decision.INCONCLUSIVE:
                sentences.append(f"{verdict.cell}: undecided. More pairs of starts narrow the interval: --pairs N")
    return sentences


def _again(request: Request) -> str:
    """The run command up to its target, on the same environment."""
    environment = request.environment
    if environment.python is not None:
        where = f" --python {shlex.quote(str(environment.python))}"
    else:
        where = f" --site {shlex.quote(str(environment.roots[0]))}" if len(environment.roots) == 1 else ""
    return f"ungate run {request.recipe.name}{where} --target {request.target}"


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
