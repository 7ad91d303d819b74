"""How packages describe what they compile: one file a way of describing.

A file is registered by being here and offering ``describe(wanted)``, which answers None where it is not its way.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ungate.build.unit import Module
from ungate.errors import Refusal
from ungate.host.packages import Package
from ungate.model import Target

__all__ = ["Companion", "Neighbour", "Wanted", "describe"]

Companion = Callable[[str], Package]
"""Finds another distribution that a build needs headers of, by its name; fetches it if need be."""

Neighbour = Callable[[str], Package | None]
"""Finds another distribution of the same environment, or None where it is not installed."""

_SOURCES = (".cu", ".cuh")


def _nobody(name: str) -> Package | None:
    return None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked: ``build`` (``package.module:function``) of ``package``, as it would be built for ``target``.

    ``arguments`` are values for parameters of the function; those of PyTorch's types are written ``torch.bfloat16``.
    """

    build: str
    package: Package
    target: Target
    companion: Companion
    neighbour: Neighbour = _nobody
    arguments: Mapping[str, str | int | bool] = field(default_factory=dict)

    @property
    def dotted(self) -> str:
        """The module that describes the build."""
        return self.build.partition(":")[0]

    @property
    def function(self) -> str:
        """The function or the extension there; empty where none is named."""
        return self.build.partition(":")[2]


def describe(wanted: Wanted) -> Module:
    """The module that is built, as the package itself describes it.

    Nothing of the package is executed or imported: its Python is read. Refusal where no way of describing fits.
    """
    for found in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        way = importlib.import_module(f"{__name__}.{found}")
        module: Module | None = way.describe(wanted)
        if module is not None:
            return module
    package = wanted.package
    libraries = _compiled_only(package)
    if libraries:
        raise Refusal(
            f"{package.name} {package.version} comes as {len(libraries)} compiled libraries without their CUDA "
            "sources, so there is nothing here to compile: its gates were decided when it was built.",
            f"See what they hold code for: cuobjdump -lelf {libraries[0]}",
        )
    raise Refusal(
        f"How {package.name} {package.version} builds '{wanted.build}' could not be read from its files.",
        "Name a function that makes a build description, and see which there are: "
        f"grep -rnE 'gen_jit_spec|load_jit|cpp_extension|CUDAExtension' {package.root}",
    )


def _compiled_only(package: Package) -> tuple[Path, ...]:
    """The libraries of a package that brings no CUDA source; none where it brings one."""
    libraries: list[Path] = []
    for folder in package.folders:
        for path in folder.rglob("*") if folder.is_dir() else ():
            if path.suffix in _SOURCES:
                return ()
            if path.suffix == ".so":
                libraries.append(path)
    return tuple(sorted(libraries))
