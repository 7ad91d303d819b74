"""What ``run`` takes from elsewhere: the hypothesis that comes next, and another release as an arm."""

from __future__ import annotations

import re

from ungate.errors import Refusal
from ungate.model import Variant
from ungate.record import Hypothesis, Ledger

__all__ = ["variant", "waiting"]


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


def variant(requirement: str) -> Variant:
    """The arm of another release; Refusal for anything but a pinned one."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*==[\w.!+]+", requirement):
        raise Refusal(
            f"'{requirement}' does not name one release of a distribution.",
            "Write: --release flashinfer-python==0.6.17",
        )
    return Variant(re.sub(r"[^a-z0-9.]+", "-", requirement.lower()), release=(requirement,))
