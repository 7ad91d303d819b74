"""A module to compile, and the cache that it is compiled into.

``<cache>/<version>/<arch>/cached_ops/<module>/`` holds the objects, the compiler's dependency files,
``<module>.so`` and ``manifest.json`` with the sha256 of every input. An entry is fresh when compiler,
flags and the content of every input are those of the manifest; file times do not count. The folder is
written beside its place and renamed into it under a lock, so that many ranks compile once.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkernels import __version__
from labkernels.compilation_context import CompilationContext

from . import env as jit_env
from .compiler import Compiler, find_compiler
from .lock import exclusive

__all__ = ["Built", "JitSpec", "current_compilation_context", "gen_jit_spec"]

logger = logging.getLogger(__name__)

current_compilation_context = CompilationContext()

FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unused-parameter")


@dataclass(frozen=True)
class Built:
    """One shared object: for which architecture, from which objects, in how many seconds (0 from the cache)."""

    arch: str
    library: Path
    objects: tuple[Path, ...]
    seconds: float
    cached: bool


@dataclass(frozen=True)
class JitSpec:
    """Name, sources and architectures of one module."""

    name: str
    sources: tuple[Path, ...]
    archs: tuple[tuple[int, str], ...]

    def folder(self, arch: tuple[int, str]) -> Path:
        """Where the module's cache entry for ``arch`` lies."""
        return jit_env.arch_dir(arch) / "cached_ops" / self.name

    def flags(self, arch: tuple[int, str]) -> tuple[str, ...]:
        """The compiler flags; the architecture is a macro, ``__CUDA_ARCH__`` = 1200 for 12.0."""
        number = arch[0] * 100 + int(arch[1][0]) * 10
        flags = [*FLAGS, f"-D__CUDA_ARCH__={number}"]
        if arch[1][1:] == "a":
            flags.append(f"-D__CUDA_ARCH_SPECIFIC__={number}")
        if arch[1][1:]:
            flags.append(f"-D__CUDA_ARCH_FAMILY_SPECIFIC__={number}")
        return tuple(flags)

    def build(self) -> tuple[Built, ...]:
        """Compile what is not fresh, for every architecture; RuntimeError with the compiler's words."""
        compiler = find_compiler()
        return tuple(self._build(compiler, arch) for arch in self.archs)

    def build_and_load(self) -> ctypes.CDLL:
        """The shared object for the device's architecture, compiled if need be."""
        device = current_compilation_context.TARGET_CUDA_ARCHS[0]
        if device not in self.archs:
            raise RuntimeError(f"Module {self.name} is not built for the device's capability {device[0]}.{device[1]}.")
        return ctypes.CDLL(str(self._build(find_compiler(), device).library))

    def _build(self, compiler: Compiler, arch: tuple[int, str]) -> Built:
        folder = self.folder(arch)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(folder.with_name(f"{self.name}.lock")):
            started = time.monotonic()
            cached = self._fresh(compiler, arch)
            if not cached:
                logger.info("compiling %s for sm_%d%s into %s", self.name, arch[0], arch[1], folder)
                self._compile(compiler, arch, folder)
            objects = tuple(folder / f"{source.stem}.o" for source in self.sources)
            seconds = 0.0 if cached else time.monotonic() - started
            return Built(f"{arch[0]}.{arch[1]}", folder / f"{self.name}.so", objects, seconds, cached)

    def _fresh(self, compiler: Compiler, arch: tuple[int, str]) -> bool:
        folder = self.folder(arch)
        try:
            manifest = json.loads((folder / "manifest.json").read_bytes())
            return bool(
                manifest["compiler"] == compiler.version
                and manifest["flags"] == list(self.flags(arch))
                and set(manifest["inputs"]) >= {_relative(source) for source in self.sources}
                and all(_digest(jit_env.LABKERNELS_DATA / name) == was for name, was in manifest["inputs"].items())
                and _digest(folder / f"{self.name}.so") == manifest["sha256"]
            )
        except (OSError, ValueError, KeyError):
            return False

    def _compile(self, compiler: Compiler, arch: tuple[int, str], folder: Path) -> None:
        with _beside(folder) as work:
            flags = (*self.flags(arch), "-I", str(jit_env.LABKERNELS_INCLUDE_DIR))
            objects = [work / f"{source.stem}.o" for source in self.sources]
            inputs: dict[str, str] = {}
            for source, target in zip(self.sources, objects, strict=True):
                needs = compiler.compile(source, target, flags, work)
                inputs.update({_relative(path): _digest(path) for path in (source, *needs)})
            library = work / f"{self.name}.so"
            compiler.link(objects, library, work)
            manifest: dict[str, Any] = {
                "module": self.name,
                "version": __version__,
                "arch": f"{arch[0]}.{arch[1]}",
                "compiler": compiler.version,
                "flags": list(self.flags(arch)),
                "inputs": dict(sorted(inputs.items())),
                "sha256": _digest(library),
            }
            (work / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def gen_jit_spec(name: str, sources: Sequence[Path], archs: Sequence[tuple[int, str]]) -> JitSpec:
    """A module of that name; nothing is compiled yet."""
    return JitSpec(name, tuple(sources), tuple(archs))


def _relative(path: Path) -> str:
    return os.path.relpath(path, jit_env.LABKERNELS_DATA)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    # The lock is held, so whatever lies here was left by a process that was killed.
    for left in folder.parent.glob(f".{folder.name}.*"):
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield work
        shutil.rmtree(folder, ignore_errors=True)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
