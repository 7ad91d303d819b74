"""One file a reason why a gate should stay closed; a file is registered by being here and offering ``find``."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator

from ungate.check.question import Question
from ungate.model import Finding

__all__ = ["Rule", "names", "rules"]

Rule = Callable[[Question], Iterator[Finding]]


def names() -> tuple[str, ...]:
    """The names of all rules."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Every rule, by the name of its file."""
    return tuple(importlib.import_module(f"{__name__}.{name}").find for name in names())
