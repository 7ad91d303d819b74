"""``ungate run``: the whole loop, or its front part."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ungate.cli.options import environment_options, json_option, target_option
from ungate.cli.output import document, notes, paper, progress

if TYPE_CHECKING:
    from ungate.model import Recipe, Target
    from ungate.pipeline import Outcome

__all__ = ["run"]

STAGES = ("doctor", "scan", "trace", "check", "patch", "build", "launch", "measure", "judge", "attribute", "report")


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("recipe", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- SERVER COMMAND...]")
@environment_options
@target_option
@click.option("--until", type=click.Choice(STAGES), default="report", help="The last stage to run.", show_default=True)
@click.option("--pairs", type=click.IntRange(2, 64), help="Pairs of server starts; without it planned from the noise.")
@click.option("--min-effect", type=click.FloatRange(0.001, 10), default=0.05, show_default=True, help="0.05 = 5 %.")
@click.option("--load-seconds", type=click.FloatRange(1), default=20.0, show_default=True, help="A cell at each start.")
@click.option("--budget-minutes", type=click.FloatRange(0.1), default=60.0, show_default=True, help="For measuring.")
@click.option(
    "--start-minutes", type=click.FloatRange(0.1), default=15.0, show_default=True, help="Until ready, at most."
)
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="For every arm; repeatable.")
@click.option("--release", "releases", multiple=True, metavar="DIST==VERSION", help="Another release as a further arm.")
@click.option(
    "--other", "others", multiple=True, metavar="NAME=PATH", help="Another interpreter or package folder as an arm."
)
@click.option("--plain", is_flag=True, help="Those arms leave the feature off, even where it is let through.")
@click.option("--same", is_flag=True, help="The candidate is the baseline once more: measure this machine's noise.")
@click.option("--swap", is_flag=True, help="Baseline and candidate change places.")
@click.option(
    "--facts", type=click.Path(path_type=Path, dir_okay=False), help="Host facts from 'ungate doctor --json'."
)
@click.option(
    "--resume", is_flag=False, flag_value="newest", metavar="[RUN]", help="Take a run up again; the newest unfinished."
)
@click.option("--next", "next_", is_flag=True, help="Run the hypothesis of the highest priority; RECIPE is its own.")
@json_option
def run(
    recipe: str | None,
    command: tuple[str, ...],
    site: Path | None,
    python: Path | None,
    target: str | None,
    until: str,
    pairs: int | None,
    min_effect: float,
    load_seconds: float,
    budget_minutes: float,
    start_minutes: float,
    variables: tuple[str, ...],
    releases: tuple[str, ...],
    others: tuple[str, ...],
    plain: bool,
    same: bool,
    swap: bool,
    facts: Path | None,
    resume: str | None,
    next_: bool,
    as_json: bool,
) -> int:
    """Open RECIPE in an overlay, prove that it runs and is right, measure it against the baseline, and decide.

    The installed packages are never touched. Stop earlier with --until; from 'launch' on the server's
    command line is needed after '--'. Every step is written down before it begins: a run that was interrupted or
    killed goes on with --resume, and no finished step is repeated.
    """
    from ungate import pipeline, recipes
    from ungate.cli import _campaign
    from ungate.host.environment import resolve
    from ungate.host.facts import load
    from ungate.model import Target

    if resume is not None:
        return _resumed(resume, recipe, as_json)
    waiting = _campaign.waiting() if next_ else None
    if waiting is not None:
        # Without a recipe's name before '--', the first word of the server's command was read as one.
        command = ((recipe, *command) if recipe else command) if recipe != waiting.recipe else command
        recipe, min_effect = waiting.recipe, waiting.min_effect or min_effect
    if recipe is None:
        raise click.UsageError("Missing argument 'RECIPE'.")
    loaded = recipes.load(recipe)
    if waiting is not None and waiting.cells:
        loaded = dataclasses.replace(loaded, cells=waiting.cells)
    goal = Target.parse(target) if target else _here(loaded)
    added = _variables(variables)
    pipeline.startable(loaded, pipeline.stages_of(loaded, until, command), command, added)
    further = _campaign.variants(loaded, releases, others, plain=plain)
    environment = resolve(site, python)
    request = pipeline.Request(
        recipe=loaded,
        environment=environment,
        target=goal,
        folder=pipeline.new_folder(loaded.name),
        until=until,
        command=command,
        variables=added,
        facts=load(facts) if facts else None,
        pairs=pairs,
        min_effect=min_effect,
        budget_s=budget_minutes * 60,
        load_s=load_seconds,
        start_deadline_s=start_minutes * 60,
        arms=further,
        same=same,
        swap=swap,
    )
    return show(request, as_json, hypothesis=waiting.id if waiting else None)


def _here(recipe: Recipe) -> Target:
    """This machine's target; a recipe that opens no gate can do without a GPU."""
    from ungate.errors import Refusal
    from ungate.host.gpus import local_target
    from ungate.model import Target

    try:
        return local_target()
    except Refusal:
        if recipe.entries:
            raise
        return Target(0)


def _resumed(number: str, recipe: str | None, as_json: bool) -> int:
    from ungate import pipeline
    from ungate.errors import Refusal

    # '--resume' takes its number as an option's value or, where a number follows another option, as RECIPE.
    chosen = number if number != "newest" else (recipe or number)
    if chosen != "newest" and not chosen.isdecimal():
        raise Refusal(f"'{chosen}' is no number of a run.", "See which runs there are: ungate ledger")
    with progress(quiet=False) as report:
        outcome = pipeline.resume(None if chosen == "newest" else int(chosen), report)
    return _told(outcome, as_json)


def _variables(pairs: tuple[str, ...]) -> dict[str, str]:
    from ungate.errors import Refusal

    for pair in pairs:
        if "=" not in pair.strip("="):
            raise Refusal(f"'{pair}' is not of the form NAME=VALUE.", "Write: ungate run RECIPE --env NAME=VALUE -- …")
    return dict(pair.split("=", 1) for pair in pairs)


def show(request: object, as_json: bool, *, hypothesis: int | None = None) -> int:
    """Run a request with progress on stderr, and print it as a document or for a reader; returns the exit code."""
    from ungate import pipeline

    assert isinstance(request, pipeline.Request)
    if forecast := pipeline.forecast(request):
        notes().print(forecast, markup=False, style="dim")
    with progress(quiet=False) as report:
        outcome = pipeline.run(request, report, hypothesis=hypothesis)
    return _told(outcome, as_json)


def _told(outcome: Outcome, as_json: bool) -> int:
    from ungate.cli._told import told

    if as_json:
        document(outcome.document)
    else:
        console = paper()
        for part in told(outcome.request, outcome.records, outcome.document["next"]):
            console.print(part)
    return outcome.code
