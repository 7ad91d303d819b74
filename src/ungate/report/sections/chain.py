"""The gates from flag to kernel."""

from __future__ import annotations

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 20
TITLE = "From flag to kernel"


def body(document: Document) -> str | None:
    """The chain with each hop's gates, and the co-compiled units apart."""
    chain = document.get("chain")
    return html(__name__, chain=chain) if chain else None
