"""``ungate check``: may it be opened here?"""

from __future__ import annotations

from pathlib import Path

import click

from ungate.cli.options import environment_options, json_option, target_option
from ungate.cli.output import document, paper, plain, progress

__all__ = ["check"]


@click.command()
@click.argument("feature")
@click.option(
    "--open", "opened", multiple=True, metavar="GATE", help="Open only this gate (id from 'why'); repeatable."
)
@click.option(
    "--facts", type=click.Path(path_type=Path, dir_okay=False), help="Host facts from 'ungate doctor --json'."
)
@target_option
@environment_options
@json_option
def check(
    feature: str,
    opened: tuple[str, ...],
    facts: Path | None,
    target: str | None,
    site: Path | None,
    python: Path | None,
    as_json: bool,
) -> int:
    """Say what would go wrong if the gates of FEATURE (a recipe) were opened: all of them, or just those named.

    Exit code 1 when there is a terminal or dangerous finding. Needs no GPU.
    """
    from ungate import pipeline, recipes
    from ungate.check.rules import names
    from ungate.cli._told import findings as told
    from ungate.host.environment import resolve
    from ungate.host.facts import collect, load
    from ungate.host.gpus import local_target
    from ungate.model import Target

    recipe = recipes.load(feature)
    aim = Target.parse(target) if target else local_target()
    environment = resolve(site, python)
    with progress(quiet=as_json) as report:
        found = pipeline.ask(
            recipe, environment, aim, frozenset(opened), load(facts) if facts else collect(environment), report
        )
    serious = any(finding.severity in {"terminal", "danger"} for finding in found)
    if as_json:
        document({"feature": recipe.name, "target": str(aim), "opened": list(opened), "findings": plain(found)})
    else:
        console = paper()
        for part in told(found):
            console.print(part)
        if not found:
            console.print(f"None of the rules ({', '.join(names())}) speaks against it.", markup=False)
    return int(serious)
