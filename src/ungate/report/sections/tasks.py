"""The steps of the run, and what to do next."""

from __future__ import annotations

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 90
TITLE = "Steps, and what is next"


def body(document: Document) -> str | None:
    """The task list and the next steps in words."""
    tasks = document.get("tasks")
    return html(__name__, tasks=tasks, next=document.get("next") or ()) if tasks else None
