"""What was compiled, and what is in it."""

from __future__ import annotations

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 50
TITLE = "Build"


def body(document: Document) -> str | None:
    """A row an artifact."""
    artifacts = document.get("artifacts")
    return html(__name__, artifacts=artifacts) if artifacts else None
