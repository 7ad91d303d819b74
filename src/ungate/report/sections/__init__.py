"""One file a section.

A section file holds ``ORDER`` (where it stands), ``TITLE`` and ``body(document)``, which returns the
section's HTML, or None where the run has nothing for it. Files are found by their presence in this folder.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Document", "Section", "sections"]

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """A section's place, name for links, title and body."""

    order: int
    name: str
    title: str
    body: Callable[[Document], str | None]


def sections() -> tuple[Section, ...]:
    """Every section in reading order."""
    found = []
    for module in pkgutil.iter_modules(__path__):
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        found.append(Section(loaded.ORDER, module.name, loaded.TITLE, loaded.body))
    return tuple(sorted(found, key=lambda section: section.order))
