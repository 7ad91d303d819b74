"""The machine and the packages."""

from __future__ import annotations

from collections.abc import Mapping

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 80
TITLE = "Machine and packages"


def _short(value: object) -> object:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items() if item is not None)
    if isinstance(value, list | tuple):
        return ", ".join(str(_short(item)) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value


def body(document: Document) -> str | None:
    """Host facts; what could not be read says unknown."""
    host = document.get("host")
    if not host:
        return None
    facts = [(str(name).replace("_", " "), _short(value)) for name, value in host.items()]
    return html(__name__, facts=facts, packages=document.get("packages") or ())
