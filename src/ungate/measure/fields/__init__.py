"""What is read from a GPU while it works: one file a topic, registered by import."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Field", "fields", "register"]


@dataclass(frozen=True, slots=True)
class Field:
    """One reading of one GPU. ``read`` takes the ``pynvml`` module and a device handle; an error is None.

    ``slow`` readings block for tens of milliseconds and are taken once a second.
    """

    name: str
    unit: str
    read: Callable[[Any, Any], float]
    slow: bool = False


_REGISTRY: dict[str, Field] = {}


def register(*new: Field) -> None:
    """Called by each file of this folder."""
    for field in new:
        _REGISTRY[field.name] = field


def fields() -> tuple[Field, ...]:
    """Every field, in the order of their names."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return tuple(_REGISTRY[name] for name in sorted(_REGISTRY))
