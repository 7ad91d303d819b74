"""All Python modules below the scanned roots, read when a name leads into them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ungate.source.python.module import PythonModule
from ungate.source.python.scopes import Binding
from ungate.source.reader import Unreadable

__all__ = ["World", "dotted_name"]


def dotted_name(file: str) -> str:
    """``a/b/__init__.py`` and ``a/b.py`` as ``a.b``."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class World:
    """Modules by dotted name. ``roots`` maps each file (relative) to the folder that it is relative to."""

    def __init__(self, files: Iterable[tuple[Path, str]]) -> None:
        self._paths: dict[str, tuple[Path, str]] = {}
        for root, file in files:
            self._paths.setdefault(dotted_name(file), (root, file))
        self._modules: dict[str, PythonModule | None] = {}
        self.held = 0
        """Bytes of text of the modules that were read."""

    def close(self) -> None:
        """Let go of every module that was read."""
        for module in self._modules.values():
            if module is not None:
                module.close()
        self._modules.clear()

    def add(self, module: PythonModule) -> None:
        """Make a module that was read elsewhere known under its name."""
        self._modules[module.dotted] = module

    def module(self, dotted: str) -> PythonModule | None:
        """The module of that name, or None when it is not among the files or cannot be read."""
        if dotted not in self._modules:
            place = self._paths.get(dotted)
            module = None
            if place is not None:
                try:
                    module = PythonModule(place[1], dotted, (place[0] / place[1]).read_bytes())
                    self.held += len(module.data)
                except (OSError, Unreadable):
                    module = None
            self._modules[dotted] = module
        return self._modules[dotted]

    def knows(self, dotted: str) -> bool:
        """Whether there is such a module."""
        return dotted in self._modules or dotted in self._paths

    def absolute(self, module: PythonModule, base: str) -> str:
        """The dotted name of what ``from <base> import`` names in a module."""
        dots = len(base) - len(base.lstrip("."))
        if not dots:
            return base
        parts = module.dotted.split(".")
        keep = len(parts) - dots + (1 if module.is_package else 0)
        return ".".join([*parts[: max(keep, 0)], *([base[dots:]] if base[dots:] else [])])

    def definitions(self, dotted: str, name: str, depth: int = 0) -> tuple[Binding, ...]:
        """What ``name`` is bound to in a module, through its star imports too."""
        module = self.module(dotted)
        if module is None or depth > 6:
            return ()
        try:
            found = module.lookup(name)
            if not found:
                for star in module.star_imports():
                    found = self.definitions(self.absolute(module, star.dotted.partition(":")[0]), name, depth + 1)
                    if found:
                        break
        except Unreadable:
            return ()
        return found
