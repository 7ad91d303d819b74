"""What to do next, and the steps of the run."""

from __future__ import annotations

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 90
TITLE = "What is next, and the steps so far"


def body(document: Document) -> str | None:
    """The next steps in words, then the task list, folded where all of it is completed."""
    tasks = document.get("tasks")
    if not tasks:
        return None
    unfinished = any(task["status"] != "completed" for task in tasks)
    return html(__name__, tasks=tasks, next=document.get("next") or (), unfinished=unfinished)
