"""How packages describe what they compile: one file a way of describing.

A file is registered by being here and offering ``describe(build, package, companion, neighbour)``, which answers None
where it is not its way.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from ungate.build.unit import Module
from ungate.errors import Refusal
from ungate.host.packages import Package

__all__ = ["Companion", "Neighbour", "describe"]

Companion = Callable[[str], Package]
"""Finds another distribution that a build needs headers of, by its name; fetches it if need be."""

Neighbour = Callable[[str], Package | None]
"""Finds another distribution of the same environment, or None where it is not installed."""


def _nobody(name: str) -> Package | None:
    return None


def describe(build: str, package: Package, companion: Companion, neighbour: Neighbour = _nobody) -> Module:
    """The module that ``build`` (``package.module:function``) names, as the package itself describes it.

    Nothing of the package is executed or imported: its Python is read. Refusal where no way of describing fits.
    """
    for found in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        way = importlib.import_module(f"{__name__}.{found}")
        module: Module | None = way.describe(build, package, companion, neighbour)
        if module is not None:
            return module
    raise Refusal(
        f"How {package.name} {package.version} builds '{build}' could not be read from its files.",
        f"Name a function that makes a build description, and see which there are: grep -rn 'def gen_' {package.root}",
    )
