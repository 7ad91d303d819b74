"""The machine and the packages."""

from __future__ import annotations

from collections.abc import Mapping

from ungate.report.sections import Document
from ungate.report.template import html

ORDER = 80
TITLE = "Machine and packages"


_BYTES = ("memory", "shared_memory", "shared_memory_free", "locked_memory_limit")


def _short(value: object) -> object:
    if isinstance(value, Mapping):
        if {"name", "version", "path"} <= value.keys():
            return f"{value['name']} {value['version'] or 'of an unknown version'} ({value['path'] or 'not found'})"
        return ", ".join(
            f"{key.replace('_', ' ')} {_sized(key, item)}" for key, item in value.items() if item is not None
        )
    if isinstance(value, list | tuple):
        return ", ".join(str(_short(item)) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value


def _sized(key: str, value: object) -> object:
    if key in _BYTES and str(value).isdecimal():
        size = int(str(value))
        return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
    return _short(value)


def body(document: Document) -> str | None:
    """Host facts; what could not be read says unknown."""
    host = document.get("host")
    if not host:
        return None
    facts = [(str(name).replace("_", " "), _short(value)) for name, value in host.items() if name != "format"]
    return html(__name__, facts=facts, packages=document.get("packages") or ())
