"""torch.utils.cpp_extension: a folder an extension.

They lie in ``$TORCH_EXTENSIONS_DIR``, else in ``~/.cache/torch_extensions/py311_cu130`` and the like. The lock is a
file named ``lock`` that exists while a process builds (torch/utils/file_baton.py); one that a killed process left
makes the next one wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.build import ninja
from ungate.build.caches import Cache, Found, home

__all__ = ["CACHE"]


def _place(variables: Mapping[str, str]) -> Path:
    chosen = variables.get("TORCH_EXTENSIONS_DIR")
    return Path(chosen) if chosen else home(variables) / ".cache" / "torch_extensions"


def _entries(root: Path) -> Iterator[Found]:
    for description in sorted(root.rglob("build.ninja")):
        folder = description.parent
        lock = folder / "lock"
        yield Found(
            name=folder.name,
            path=folder,
            owner="torch",
            arch="" if folder.parent == root else folder.parent.name,
            inputs=ninja.inputs(folder),
            outputs=tuple(sorted(folder.glob("*.so"))),
            locks=(lock,) if lock.exists() else (),
            note="its lock is there: if no process builds it, every import waits for ever" if lock.exists() else "",
        )


CACHE = Cache("torch_extensions", _place, _entries)
