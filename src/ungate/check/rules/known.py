"""A public result about this feature on this kind of machine: someone has opened it before, or found it closed.

As printed::

    warning  it gave wrong results for others (flashinfer-ai/flashinfer#3903, 2026-07-09; RTX 5080): with only the …
"""

from __future__ import annotations

from collections.abc import Iterator

from ungate.check.question import Question
from ungate.model import Finding, KnownMatch

__all__ = ["find"]

_CAME_OF_IT = {
    "wrong": "it gave wrong results for others",
    "hang": "it hung for others",
    "crash": "it ended in an error for others",
    "slower": "it was slower for others",
    "mixed": "it helped others in part",
    "refused": "it was found closed before",
    "faster": "it helped others",
}
_HARMFUL = {"wrong", "hang", "crash", "slower"}


def find(question: Question) -> Iterator[Finding]:
    """A warning for each result that did harm on this architecture and topology, a note for every other."""
    for match in question.known:
        yield _told(match)


def _told(match: KnownMatch) -> Finding:
    result = match.result
    elsewhere = any(not each.startswith("version") for each in match.open)
    when = f", {result.date}" if result.date else ""
    where = f"; {result.hardware}" if result.hardware else ""
    ranks = f"; seen with {' and '.join(map(str, result.ranks))} ranks" if result.ranks else ""
    unsure = f"; not compared: {', '.join(match.open)}" if match.open else ""
    part = "; only a part of the report was read" if result.partial else ""
    return Finding(
        rule="known",
        severity="warning" if result.outcome in _HARMFUL and not elsewhere else "note",
        what=f"{_CAME_OF_IT[result.outcome]} ({result.reference}{when}{where}): {result.what}",
        advice=f"What reopens it: {result.reopens}.",
        evidence=f"{result.url}{ranks}{unsure}{part}",
        confidence="low" if match.open or result.partial else "medium",
    )
