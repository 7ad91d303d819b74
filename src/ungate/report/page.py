"""The page around the sections: no script, no outside reference, light and dark, printable."""

from __future__ import annotations

from importlib import resources

from markupsafe import Markup

from ungate.report.sections import Document, sections
from ungate.report.template import html

__all__ = ["render"]


def render(document: Document) -> str:
    """The page of one run from its document (what ``ungate run --json`` prints); a missing part has no section."""
    parts = []
    for section in sections():
        body = section.body(document)
        if body is not None:
            parts.append((section.name, section.title, Markup(body)))
    recipe = document.get("recipe") or {}
    page = html(
        __name__,
        title=f"{recipe.get('name', 'run')} for {document.get('target', 'an unknown target')}",
        lead=recipe.get("summary", ""),
        style=Markup((resources.files("ungate.report") / "page.css").read_text("utf-8")),
        parts=parts,
        version=document.get("ungate", ""),
        ended=document.get("ended", "an unknown date"),
        folder=document.get("folder", ""),
    )
    return page.encode("utf-8", "backslashreplace").decode("utf-8")  # a path need not be text
