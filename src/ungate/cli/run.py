"""``ungate run``: the whole loop, or its front part."""

from __future__ import annotations

from pathlib import Path

import click

from ungate.cli.options import environment_options, json_option, target_option
from ungate.cli.output import document, notes, paper, progress

__all__ = ["run"]

STAGES = ("doctor", "scan", "trace", "check", "patch", "build", "launch", "measure", "judge", "report")


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("recipe")
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
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="For both arms; repeatable.")
@click.option(
    "--facts", type=click.Path(path_type=Path, dir_okay=False), help="Host facts from 'ungate doctor --json'."
)
@json_option
def run(
    recipe: str,
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
    facts: Path | None,
    as_json: bool,
) -> int:
    """Open RECIPE in an overlay, prove that it runs and is right, measure it against the baseline, and decide.

    The installed packages are never touched. Stop earlier with --until; from 'launch' on the server's
    command line is needed after '--'.
    """
    from ungate import pipeline, recipes
    from ungate.host.environment import resolve
    from ungate.host.facts import load
    from ungate.host.gpus import local_target
    from ungate.model import Target

    loaded = recipes.load(recipe)
    goal = Target.parse(target) if target else local_target()
    added = _variables(variables)
    pipeline.stages_of(loaded, until, command)
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
    )
    return show(request, as_json)


def _variables(pairs: tuple[str, ...]) -> dict[str, str]:
    from ungate.errors import Refusal

    for pair in pairs:
        if "=" not in pair.strip("="):
            raise Refusal(f"'{pair}' is not of the form NAME=VALUE.", "Write: ungate run RECIPE --env NAME=VALUE -- …")
    return dict(pair.split("=", 1) for pair in pairs)


def show(request: object, as_json: bool) -> int:
    """Run a request with progress on stderr, and print it as a document or for a reader; returns the exit code."""
    from ungate import pipeline
    from ungate.cli._told import told

    assert isinstance(request, pipeline.Request)
    if forecast := pipeline.forecast(request):
        notes().print(forecast, markup=False, style="dim")
    with progress(quiet=False) as report:
        outcome = pipeline.run(request, report)
    if as_json:
        document(outcome.document)
    else:
        console = paper()
        for part in told(request, outcome.records, outcome.document["next"]):
            console.print(part)
    return outcome.code
