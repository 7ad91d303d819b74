"""What was changed, in the overlay only."""

from __future__ import annotations

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 40
TITLE = "The edits"


def _kind(line: str) -> str:
    if line.startswith(("---", "+++", "@@", "diff ")):
        return "at"
    return {"+": "add", "-": "del"}.get(line[:1], "")


def body(document: Document) -> str | None:
    """The unified diff of the series."""
    series = document.get("series")
    if not series:
        return None
    lines = [(_kind(line), line) for line in str(document.get("diff") or "").splitlines()]
    riders = sorted({f"sm_{arch}" for edit in series["edits"] for arch in edit["riders"]})
    return html(__name__, series=series, lines=lines, riders=riders, target=document.get("target"))
