"""Packages that must fit each other, and whether they do.

FlashInfer is three distributions (sources, prebuilt modules, prebuilt cubins) which must be of one version; an
engine pins the versions it was tested with. A local label says how a wheel was built and not what is in it:
``0.6.17`` and ``0.6.17+cu130`` fit.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ungate.host import packages
from ungate.host.environment import Environment

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

__all__ = ["FAMILIES", "WATCHED", "pins", "skew"]

FAMILIES: tuple[tuple[str, ...], ...] = (("flashinfer-python", "flashinfer-jit-cache", "flashinfer-cubin"),)
_ENGINES = ("sglang", "vllm", "tensorrt-llm")
WATCHED = (
    *_ENGINES,
    *FAMILIES[0],
    "apache-tvm-ffi",
    "b12x",
    "cuda-python",
    "deep-gemm",
    "flash-attn",
    "nvidia-cutlass-dsl",
    "nvidia-nccl-cu12",
    "nvidia-nccl-cu13",
    "quack-kernels",
    "sgl-kernel",
    "sglang-kernel",
    "tilelang",
    "torch",
    "triton",
    "xformers",
)
"""The distributions whose versions ``ungate doctor`` shows, where they are installed."""


def _public(version: str) -> str:
    return version.partition("+")[0]


def _requirements(info: Path) -> list[str]:
    with contextlib.suppress(OSError):
        text = (info / "METADATA").read_text(encoding="utf-8", errors="replace")
        return re.findall(r"^Requires-Dist:\s*(.+)$", text.partition("\n\n")[0], re.MULTILINE)
    return []


def _without_labels(specifier: SpecifierSet) -> SpecifierSet:
    """The specifier with the local labels of its versions left out: ``==0.6.17+cu130`` is met by 0.6.17."""
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(",".join(f"{each.operator}{_public(each.version)}" for each in specifier))


def pins(env: Environment, versions: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each exact pin of an engine that what is installed does not meet."""
    engines = [engine for engine in _ENGINES if engine in versions]
    if not engines:
        return ()
    from packaging.requirements import InvalidRequirement, Requirement

    said = []
    for engine in engines:
        info = packages.find(env, engine).info
        for line in _requirements(info) if info else ():
            if "==" not in line or packages.canonical(re.split(r"[^\w.-]", line, maxsplit=1)[0]) not in WATCHED:
                continue
            with contextlib.suppress(InvalidRequirement):
                wanted = Requirement(line)
                there = versions.get(packages.canonical(wanted.name))
                if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
                    continue
                if there and not _without_labels(wanted.specifier).contains(_public(there), prereleases=True):
                    said.append(
                        f"{engine} {versions[engine]} pins {wanted.name}{wanted.specifier}; {there} is installed."
                    )
    return tuple(dict.fromkeys(said))


def skew(versions: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each family whose members differ in version, local labels aside."""
    said = []
    for family in FAMILIES:
        there = {name: versions[name] for name in family if name in versions}
        if len({_public(version) for version in there.values()}) > 1:
            listed = ", ".join(f"{name} {version}" for name, version in there.items())
            said.append(f"These must be of one version and are not: {listed}.")
    return tuple(said)
