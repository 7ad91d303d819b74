"""``ungate known``: what is already known of a feature, from own runs and from public results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ungate.cli.options import environment_options, json_option, target_option
from ungate.cli.output import document, notes, paper, plain

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ungate.host.facts import HostFacts
    from ungate.model import KnownMatch
    from ungate.record.past import Past

__all__ = ["known"]

_STYLES = {"keep": "green", "faster": "green", "inconclusive": "yellow", "mixed": "yellow"}
_ALIKE = 0.85  # difflib's ratio; two recipes' names may have a part in common
_HOLDS = {True: "holds here", False: "reopened", None: "may hold here"}


@click.command()
@click.argument("feature")
@target_option
@environment_options
@click.option(
    "--facts", type=click.Path(path_type=Path, dir_okay=False), help="Host facts from 'ungate doctor --json'."
)
@json_option
def known(
    feature: str, target: str | None, site: Path | None, python: Path | None, facts: Path | None, as_json: bool
) -> int:
    """Say what is known of FEATURE (a recipe's name, or words): own runs first, then public results.

    Each comes with the condition that makes it worth trying again. With --site or --python versions are compared, and a
    result that they exclude is left out or said to be reopened; what is not known here excludes nothing. A ledger that
    cannot be read is told on stderr, and own is null in the document.
    """
    from ungate import recipes
    from ungate.errors import Refusal
    from ungate.host import packages
    from ungate.host.environment import resolve
    from ungate.host.facts import load
    from ungate.model import Target
    from ungate.record import Ledger
    from ungate.record.known import described, matching, topology_of
    from ungate.record.past import past

    if not feature.strip():
        raise Refusal("The feature has no name.", "Name one, or words: ungate known flashinfer-allreduce-fusion")
    goal = Target.parse(target) if target else None
    versions = packages.versions(resolve(site, python)) if site or python else None
    here = load(facts) if facts else _facts()
    words = described(recipes.load(feature)) if feature in recipes.names() or feature.endswith(".toml") else feature
    name = recipes.load(feature).name if words != feature else feature
    try:
        own = past(Ledger.here().runs(), name, goal, versions, here)
        unread = False
    except Refusal as refusal:
        notes().print(f"Own runs are not known: {refusal.what}\n{refusal.next_step}", style="yellow", markup=False)
        own, unread = (), True
    public = matching(words, goal, versions, topology_of(here))
    if words == feature and not own:
        _spelt(feature, recipes.names(), found=bool(public))
    if as_json:
        document(
            {
                "feature": name,
                "target": target,
                "own": None if unread else [_own(each) for each in own],
                "public": plain(public),
            }
        )
        return 0
    for part in _told(name, words != feature, own, public):
        paper().print(part)
    return 0


def _spelt(feature: str, recipes: Sequence[str], *, found: bool) -> None:
    """Refuse a misspelt recipe, and misspelt words that find nothing; where others of them find something, warn."""
    import difflib

    from ungate.errors import Refusal, shell
    from ungate.record.spelling import misspelt

    if near := difflib.get_close_matches(feature, recipes, 1, _ALIKE):
        raise Refusal(f"There is no recipe named '{feature}'.", f"Did you mean this one: ungate known {near[0]}")
    meant = misspelt(feature, recipes)
    if not meant:
        return
    told = ", ".join(f"'{word}' (like '{other}')" for word, other in meant.items())
    better = feature.lower()
    for word, other in meant.items():
        better = better.replace(word, other)
    again = f"ungate known {shell(better)}"
    if not found:
        raise Refusal(f"Nothing is known of '{feature}', and no result here speaks of {told}.", f"Try: {again}")
    notes().print(f"No result speaks of {told}. Did you mean: {again}", style="yellow", markup=False)


def _facts() -> HostFacts:
    from ungate.host.environment import Environment
    from ungate.host.facts import collect

    return collect(Environment((), None))


def _own(each: Past) -> dict[str, object]:
    return {
        "run": each.row.id,
        "started": each.row.started,
        "recipe": each.row.recipe,
        "target": each.row.target,
        "holds": each.holds,
        "changed": list(each.changed),
        "unsure": list(each.unsure),
        "stopped": each.row.fingerprint.get("stopped") or "",
        "verdicts": plain(each.row.verdicts),
        "reopens": each.row.reopen,
    }


def _told(name: str, recipe: bool, own: Sequence[Past], public: Sequence[KnownMatch]) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    if not own and not public:
        next_step = f"ungate run {name} -- SERVER COMMAND" if recipe else f"ungate why '{name}'"
        yield f"Nothing is known of '{name}'. Find out: {next_step}"
        return
    if own:
        yield Text("Own runs", style="bold underline")
    for each in own:
        line = Text(f"run {each.row.id}  {each.row.started[:10]}  {each.row.recipe} for {each.row.target}  ")
        line.append(_HOLDS[each.holds], style="" if each.holds is not False else "yellow")
        yield line
        if stopped := each.row.fingerprint.get("stopped"):
            yield Padding(Text(str(stopped)), (0, 0, 0, 2), expand=False)
        for verdict in each.row.verdicts:
            change = "" if verdict.ratio is None else f" {(verdict.ratio - 1) * 100:+.1f} %"
            said = Text(f"{verdict.decision.value}{change}", style=_STYLES.get(verdict.decision.value, "red"))
            said.append(f"  {verdict.cell}, {verdict.arm}: {verdict.reason}", style="dim")
            yield Padding(said, (0, 0, 0, 2), expand=False)
        if each.changed:
            yield Padding(
                Text(f"Changed since: {'; '.join(each.changed)}.", style="yellow"), (0, 0, 0, 2), expand=False
            )
        if each.unsure:
            yield Padding(Text(f"Not compared: {', '.join(each.unsure)}.", style="dim"), (0, 0, 0, 2), expand=False)
        if each.row.reopen:
            yield Padding(Text(f"Worth trying again with {each.row.reopen}."), (0, 0, 0, 2), expand=False)
    if public:
        yield Text(("\n" if own else "") + "Public results, the worst first", style="bold underline")
    for match in public:
        result = match.result
        line = Text(f"{result.outcome:8}", style=_STYLES.get(result.outcome, "red"))
        line.append(f" {result.reference}", style="cyan")
        line.append(f"  {result.date}  {result.hardware}", style="dim")
        yield line
        yield Padding(Text(result.what), (0, 0, 0, 2), expand=False)
        yield Padding(Text(f"Reopens: {result.reopens}", style="dim"), (0, 0, 0, 2), expand=False)
        if match.open:
            yield Padding(Text(f"Not compared: {', '.join(match.open)}.", style="dim"), (0, 0, 0, 2), expand=False)
