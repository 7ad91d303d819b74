"""The CUDA tools and the host compiler: where they are and what they can compile for."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ungate.errors import Refusal

__all__ = ["TOOLS", "Tool", "codes", "find", "home", "include_folders", "need", "tool", "tools"]

TOOLS = ("nvcc", "ptxas", "cuobjdump", "nvdisasm", "g++")
_DEADLINE_S = 20.0


@dataclass(frozen=True, slots=True)
class Tool:
    """A program. ``version`` is None where it does not say one."""

    name: str
    path: Path
    version: str | None


def _newest_first(places: Iterable[Path]) -> list[Path]:
    """``bin`` folders by the numbers in their parent's name: ``cuda-13.0`` before ``cuda-12.9`` before ``cuda``."""

    def number(place: Path) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", place.parent.name)]

    return sorted(places, key=number, reverse=True)


def _usual_places() -> list[Path]:
    """Toolkits that are installed but not on PATH."""
    return _newest_first(Path("/usr/local").glob("cuda*/bin"))


def _wheel_places() -> list[Path]:
    """``bin`` folders of NVIDIA's wheels beside ungate (``nvidia/cu13/bin``; for CUDA 12 ``nvidia/cuda_nvcc/bin``)."""
    roots = [Path(folder) / "nvidia" for folder in sys.path if folder.endswith("-packages")]
    return _newest_first(place for root in roots for place in root.glob("*/bin"))


@functools.cache
def find(name: str) -> Path | None:
    """The program: from NVIDIA's wheels beside ungate, CUDA_PATH or CUDA_HOME, PATH, ``/usr/local/cuda*``, conda.

    ``ptxas`` comes from beside ``nvcc`` where it is there: the two belong together.
    """
    if name == "ptxas" and (compiler := find("nvcc")) and (beside := compiler.with_name("ptxas")).exists():
        return beside
    named = [Path(home) / "bin" for variable in ("CUDA_PATH", "CUDA_HOME") if (home := os.environ.get(variable))]
    path = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    nvidia = not name.endswith("++")
    places = [*_wheel_places(), *named, *path, *_usual_places()] if nvidia else path
    if found := shutil.which(name, path=os.pathsep.join(map(str, places))):
        return Path(found)
    if nvidia:
        # Last, for conda and for a toolkit that only the dynamic loader knows: importing it costs a tenth of a second.
        with contextlib.suppress(Exception):
            from cuda.pathfinder import find_nvidia_binary_utility

            return Path(found) if (found := find_nvidia_binary_utility(name)) else None
    return None


def need(name: str) -> Path:
    """The program; Refusal that says how to get it where it is missing."""
    if found := find(name):
        return found
    if name.endswith("++"):
        raise Refusal(f"The host compiler {name} is not on PATH.", "Install it: apt-get install g++")
    raise Refusal(
        f"NVIDIA's {name} is not here: not in a wheel beside ungate, not in a CUDA toolkit, not on PATH.",
        "Install it: pip install 'ungate[toolchain]' (or set CUDA_HOME to a toolkit)",
    )


def _ask(path: Path, *arguments: str, errors: bool = False) -> str | None:
    """What a program prints (with ``errors``: on standard error); None where it fails.

    Not through :mod:`ungate.host.children`: these start nothing themselves, and looking for
    grandchildren would cost more than the question.
    """
    try:
        answer = subprocess.run(
            [path, *arguments], check=False, capture_output=True, timeout=_DEADLINE_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    said = answer.stderr if errors else answer.stdout
    return said.decode("utf-8", "replace") if answer.returncode == 0 else None


def _version(name: str, path: Path) -> str | None:
    said = _ask(path, "-dumpfullversion" if name.endswith("++") else "--version") or ""
    match = re.search(r"\bV(\d+(?:\.\d+)+)", said) or re.search(r"^(\d+(?:\.\d+)*)", said)
    return match[1] if match else None


@functools.cache
def tool(name: str) -> Tool | None:
    """The program with its version, or None."""
    path = find(name)
    return Tool(name, path, _version(name, path)) if path else None


def tools() -> tuple[Tool, ...]:
    """All of :data:`TOOLS` that are here."""
    return tuple(found for name in TOOLS if (found := tool(name)))


@functools.cache
def codes() -> tuple[str, ...] | None:
    """What this nvcc can compile for (``sm_90``, ``sm_120`` …), by ``nvcc --list-gpu-code``; None without an answer."""
    compiler = find("nvcc")
    if compiler is None:
        return None
    listed = re.findall(r"^sm_\d+[af]?$", _ask(compiler, "--list-gpu-code") or "", re.MULTILINE)
    return tuple(sorted(listed, key=lambda code: (int(re.sub(r"\D", "", code)), code))) or None


@functools.cache
def home() -> Path | None:
    """The folder of the toolkit that nvcc belongs to, as nvcc itself states it: what is on PATH may be a wrapper."""
    compiler = find("nvcc")
    said = _ask(compiler, "--dryrun", "-x", "cu", "-c", "/dev/null", errors=True) if compiler else None
    top = re.search(r"^#\$ TOP=(.+)$", said or "", re.MULTILINE)
    return Path(top[1].strip()).resolve() if top else None


def include_folders() -> tuple[Path, ...]:
    """Header folders of the toolkit (the wheels keep them in one folder ``include``)."""
    top = home()
    if top is None:
        return ()
    places = (top / "include", top / "targets" / "x86_64-linux" / "include", top / "include" / "cccl")
    return tuple(dict.fromkeys(place.resolve() for place in places if place.is_dir()))
