"""What ``run`` takes from elsewhere: the hypothesis that comes next, and other releases and environments as arms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ungate.errors import Refusal
from ungate.model import Recipe, Variant
from ungate.record import Hypothesis, Ledger

__all__ = ["variants", "waiting"]


def waiting() -> Hypothesis:
    """The hypothesis of the highest priority that waits for a run; Refusal where there is none with a recipe."""
    pending = [each for each in Ledger.here().hypotheses() if each.task.status == "pending"]
    for each in pending:
        if each.recipe:
            return each
    if pending:
        raise Refusal(
            f"'{pending[0].task.content}' names no recipe, so a person has to decide it.",
            "Add one that a run decides: ungate tasks add CONTENT --recipe RECIPE",
        )
    raise Refusal("No hypothesis waits for a run.", "Add one: ungate tasks add CONTENT --recipe RECIPE")


def variants(recipe: Recipe, releases: Sequence[str], others: Sequence[str], *, plain: bool) -> tuple[Variant, ...]:
    """The arms of other releases and environments, with the feature switched on unless ``plain``.

    Refusal for a release that is not pinned, a place that is no environment, and a name that another arm has.
    """
    found = [*_released(releases, plain), *_placed(others, plain)]
    taken = {"baseline", "candidate", *(arm.name for arm in recipe.arms)}
    for each in found:
        if each.name in taken:
            raise Refusal(
                f"Two arms of this run would be named '{each.name}'.",
                "Name each arm once, and none of them baseline or candidate: --other NAME=PATH",
            )
        taken.add(each.name)
    return tuple(found)


def _released(requirements: Sequence[str], plain: bool) -> Iterator[Variant]:
    for requirement in requirements:
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*==[\w.!+]+", requirement):
            raise Refusal(
                f"'{requirement}' does not name one release of a distribution.",
                "Write: --release flashinfer-python==0.6.17",
            )
        name = re.sub(r"[^a-z0-9.]+", "-", requirement.lower())
        yield Variant(name, release=(requirement,), feature=not plain)


def _placed(pairs: Sequence[str], plain: bool) -> Iterator[Variant]:
    from ungate.host.environment import resolve

    for pair in pairs:
        name, _, path = pair.partition("=")
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name) or not path:
            raise Refusal(
                f"'{pair}' does not name an arm and where its packages are.",
                "Write a name in small letters and a path: --other newer=/opt/newer/bin/python",
            )
        place = Path(path).expanduser().absolute()
        resolve(*((place, None) if place.is_dir() else (None, place)))
        yield Variant(name, place=place, feature=not plain)
