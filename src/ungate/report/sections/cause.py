"""Why a candidate lost: what one thing changed at a time did to it."""

from __future__ import annotations

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 14
TITLE = "Why it lost"

_WORDS = {"cause": "danger", "unknown": "unknown"}


def body(document: Document) -> str | None:
    """A row an experiment, and what they say together; None where nothing was lost by its speed."""
    found = document.get("ablations")
    if not found:
        return None
    rows = [{**each, "style": _WORDS.get(each["outcome"], "soft")} for each in found]
    return html(__name__, rows=rows, cause=document.get("cause", ""))
