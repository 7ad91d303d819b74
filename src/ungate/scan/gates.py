"""From drafts to gates: the set that passes, an id that lasts, one decision a line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from ungate.model import Gate, Sense
from ungate.scan.draft import Draft
from ungate.scan.patterns import Pattern
from ungate.scan.select import Source
from ungate.source.condition import Not, passing

__all__ = ["gates"]

_LONGEST = 2000
"""Characters of a condition as it is told; the longest of a real header has 900."""


def gates(source: Source, drafts: Iterable[tuple[Pattern, Draft]]) -> list[Gate]:
    """The gates of one file, by line; of two drafts that begin on one line the pattern with the lower rank wins."""
    kept: dict[int, tuple[Pattern, Draft]] = {}
    for found, draft in sorted(drafts, key=lambda each: (each[1].line, each[0].rank, each[1].span)):
        kept.setdefault(draft.line, (found, draft))
    counted: dict[str, int] = {}
    made = []
    for found, draft in kept.values():
        condition = Not(draft.condition) if draft.sense is Sense.REFUSE else draft.condition
        text = " ".join(draft.text.split())
        key = "\0".join((source.package, source.file, found.slug, text))
        ordinal = counted[key] = counted.get(key, -1) + 1
        made.append(
            Gate(
                id=hashlib.sha1(
                    f"{key}\0{ordinal}".encode("utf-8", "surrogateescape"), usedforsecurity=False
                ).hexdigest()[:10],
                pattern=found.slug,
                package=source.package,
                version=source.version,
                file=source.file,
                line=draft.line,
                end_line=draft.end_line,
                kind=draft.kind or found.kind,
                condition=text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…",
                passes=passing(condition),
                role=draft.role,
                form=draft.form,
                span=draft.span,
                sense=draft.sense,
                symbol=draft.symbol,
                names=draft.names,
                vendored=source.vendored,
                note=draft.note,
            )
        )
    return made
