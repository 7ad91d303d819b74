"""What the machine did while the load ran."""

from __future__ import annotations

from markupsafe import Markup

from ungate.report.plots import timeline
from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 70
TITLE = "Telemetry"


def body(document: Document) -> str | None:
    """One plot a reading that was taken; a reading that is not supported here is not drawn."""
    readings: dict[str, list[dict[str, object]]] = {}
    for row in document.get("telemetry") or ():
        if row["value"] is not None:
            readings.setdefault(row["reading"], []).append(row)
    if not readings:
        return None
    return html(__name__, plots=[(title, Markup(timeline(rows, title))) for title, rows in readings.items()])
