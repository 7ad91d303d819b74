"""Where to use the path: a row a cell, as the policy file has it."""

from __future__ import annotations

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 12
TITLE = "Policy"


def body(document: Document) -> str | None:
    """The policy's rows and what it holds for; None where nothing was decided."""
    policy = document.get("policy")
    if not policy:
        return None
    return html(__name__, policy=policy, place=policy["place"], folder=document.get("folder", ""))
