"""What the way is like in the packages of the further arms."""

from __future__ import annotations

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 35
TITLE = "In other releases and environments"


def body(document: Document) -> str | None:
    """A row an arm that has packages of its own, with the gates that are closed there."""
    found = document.get("elsewhere")
    return html(__name__, found=found) if found else None
