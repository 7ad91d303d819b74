"""Working is not running, and helping is not working: the guards of a keep."""

from __future__ import annotations

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 60
TITLE = "Proofs"


def body(document: Document) -> str | None:
    """The guards with their evidence."""
    guards = document.get("guards")
    if not guards:
        return None
    guards = [{"arm": "candidate", **guard} for guard in guards]
    return html(__name__, guards=guards, several=len({guard["arm"] for guard in guards}) > 1)
