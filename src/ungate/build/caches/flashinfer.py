"""FlashInfer: modules built by ninja.

They lie in ``$FLASHINFER_WORKSPACE_BASE/.cache/flashinfer/VERSION/ARCHS/cached_ops/MODULE``, and beside it in
``generated/MODULE`` the sources made from templates (flashinfer/jit/env.py). Older releases have no VERSION level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.build import ninja
from ungate.build.caches import Cache, Found, home

__all__ = ["CACHE"]

_ARCHS = re.compile(r"\d{2,3}[af]?(?:_\d{2,3}[af]?)*")


def _place(variables: Mapping[str, str]) -> Path:
    base = variables.get("FLASHINFER_WORKSPACE_BASE")
    return (Path(base) if base else home(variables)) / ".cache" / "flashinfer"


def _archs(root: Path) -> Iterator[tuple[str, Path]]:
    """(version, folder of one set of architectures); version "" in the old layout."""
    for first in sorted(root.iterdir()):
        if first.is_symlink() or not first.is_dir():
            continue
        if _ARCHS.fullmatch(first.name):
            yield "", first
        elif re.match(r"\d+\.", first.name):
            yield from ((first.name, second) for second in sorted(first.iterdir()) if _ARCHS.fullmatch(second.name))


def _entries(root: Path) -> Iterator[Found]:
    for version, folder in _archs(root):
        arch = " ".join(f"sm_{number}" for number in folder.name.split("_"))
        for module in sorted((folder / "cached_ops").glob("*")):
            if module.name == "tmp" or module.is_symlink() or not module.is_dir():
                continue
            outputs = tuple(sorted(module.glob("*.so")))
            yield Found(
                name=module.name,
                path=module,
                owner="flashinfer-python",
                version=version,
                arch=arch,
                inputs=ninja.inputs(module),
                outputs=outputs or tuple(sorted(module.glob("*.o"))),
                locks=tuple((folder / "cached_ops" / "tmp").glob(f"{module.name}.lock")),
                note="" if outputs else "not linked: the build was ended before its last step",
            )


CACHE = Cache("flashinfer", _place, _entries)
