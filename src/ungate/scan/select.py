"""Which files are looked at, in which language, and which of them are somebody else's."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ungate.host.packages import Package
from ungate.model import Unread

__all__ = ["LARGEST", "SUFFIXES", "Source", "is_vendored", "select"]

LARGEST = 32 << 20
"""Bytes; a source file beyond that is generated data and is listed as unread."""

SUFFIXES = frozenset(
    {
        *(".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".cpp", ".cc", ".cxx", ".c", ".inc", ".inl"),
        *(".cu.in", ".cuh.in", ".h.in", ".jinja", ".jinja2", ".cmake", "CMakeLists.txt"),
    }
)
"""As the reader of C, C++ and CUDA has them; repeated here so that an answer from the cache imports no reader."""

_SKIPPED = frozenset({"__pycache__", ".git", ".hg", "node_modules", ".venv"})
_FOREIGN = frozenset(
    {"third_party", "3rdparty", "thirdparty", "third-party", "_vendor", "vendor", "vendored", "external"}
)
_PROJECTS = frozenset(
    {"cutlass", "cccl", "thrust", "cub", "libcudacxx", "spdlog", "fmt", "nlohmann", "pybind11", "googletest", "dlpack"}
)
_LAYOUT = frozenset({"include", "cmake", "CMakeLists.txt", "LICENSE", "LICENSE.txt", "libcudacxx"})
"""What the root of a C++ project holds; a folder that only bears such a project's name is the package's own."""

_HEADERS = {
    "cutlass": frozenset({"cutlass.h", "arch"}),
    "cute": frozenset({"tensor.hpp", "layout.hpp"}),
    "cub": frozenset({"cub.cuh", "version.cuh"}),
    "thrust": frozenset({"version.h", "device_vector.h"}),
}
"""What lies in the folder of a project's headers, where that is all a package carries of it."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file. ``file`` is relative to ``root``; ``stamp`` is its size, modification time and change time (ns)."""

    root: str
    file: str
    package: str
    version: str
    language: str
    stamp: tuple[int, int, int]
    vendored: bool

    @property
    def path(self) -> Path:
        return Path(self.root, self.file)


def is_vendored(name: str, names_inside: frozenset[str]) -> bool:
    """Whether a folder is the root of a third-party tree, by its name and what lies in it."""
    return (
        name in _FOREIGN
        or (name in _PROJECTS and not _LAYOUT.isdisjoint(names_inside))
        or _HEADERS.get(name, frozenset("/")) <= names_inside
    )


def _language(name: str, suffixes: tuple[str, ...]) -> str:
    if name.endswith(".py"):
        return "python"
    return "cuda" if name.endswith(suffixes) else ""


class _Walk:
    def __init__(self, package: Package, suffixes: tuple[str, ...], unread: list[Unread]) -> None:
        self.package = package
        self.root = str(package.root)
        self.suffixes = suffixes
        self.unread = unread

    def entry(self, path: str, file: str, vendored: bool) -> Iterator[Source]:
        language = _language(file, self.suffixes)
        if not language:
            return
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError as error:
            self.unread.append(Unread(file, f"cannot be read: {error.strerror}"))
            return
        if not stat.S_ISREG(found.st_mode):
            self.unread.append(Unread(file, "not a regular file"))
        elif found.st_size > LARGEST:
            self.unread.append(Unread(file, f"larger than {LARGEST >> 20} MB"))
        else:
            stamp = (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            yield Source(self.root, file, self.package.name, self.package.version, language, stamp, vendored)

    def folder(self, path: str, file: str, vendored: bool, depth: int = 0) -> Iterator[Source]:
        try:
            with os.scandir(path) as listing:
                entries = sorted(listing, key=lambda each: each.name)
        except OSError as error:
            self.unread.append(Unread(file, f"cannot be listed: {error.strerror}"))
            return
        if not vendored and depth:
            vendored = is_vendored(os.path.basename(path), frozenset(each.name for each in entries))  # noqa: PTH119
        for each in entries:
            name = f"{file}/{each.name}"
            if each.is_dir(follow_symlinks=False):
                if each.name not in _SKIPPED:
                    yield from self.folder(each.path, name, vendored, depth + 1)
            else:
                yield from self.entry(each.path, name, vendored)


def select(packages: Sequence[Package], suffixes: frozenset[str]) -> tuple[list[Source], list[Unread]]:
    """The source files of the packages, and what could not be looked at. ``suffixes`` are those of C++ and CUDA."""
    found: list[Source] = []
    unread: list[Unread] = []
    seen: set[tuple[str, str]] = set()
    endings = tuple(suffixes)
    for package in packages:
        walk = _Walk(package, endings, unread)
        for top in package.tops:
            if (walk.root, top) in seen:
                continue
            seen.add((walk.root, top))
            path = f"{walk.root}/{top}"
            if os.path.isdir(path):  # noqa: PTH112
                found.extend(walk.folder(path, top, False))
            else:
                found.extend(walk.entry(path, top, False))
    return found, unread
