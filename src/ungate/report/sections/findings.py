"""What the checks said before anything was started."""

from __future__ import annotations

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 30
TITLE = "Checks"


def body(document: Document) -> str | None:
    """Every finding, the worst unfolded."""
    findings = document.get("findings")
    return None if findings is None else html(__name__, findings=findings)
