"""Triton: ``$TRITON_CACHE_DIR``, else ``.triton/cache`` below ``$TRITON_HOME`` or the home folder; a folder a kernel.

The folder's name is a hash over the kernel's source, what it calls, the options, and Triton itself
(triton/compiler/compiler.py, triton/runtime/cache.py), so a changed kernel gets another folder.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ungate.build.caches import Cache, Found, home

__all__ = ["CACHE"]


def _place(variables: Mapping[str, str]) -> Path:
    if chosen := variables.get("TRITON_CACHE_DIR"):
        return Path(chosen)
    base = variables.get("TRITON_HOME")
    return (Path(base) if base else home(variables)) / ".triton" / "cache"


def _metadata(folder: Path) -> tuple[str, dict[str, Any]]:
    for file in sorted(folder.glob("*.json")):
        if not file.name.startswith("__grp__"):
            with contextlib.suppress(OSError, ValueError, RecursionError):
                content = json.loads(file.read_text(encoding="utf-8"))
                if isinstance(content, dict) and "hash" in content:
                    return file.stem, content
    return "", {}


def _entries(root: Path) -> Iterator[Found]:
    for folder in sorted(root.iterdir()):
        if folder.is_symlink() or not folder.is_dir():
            continue
        name, content = _metadata(folder)
        target = content.get("target") or {}
        capability = target.get("arch") if isinstance(target, dict) else None
        outputs = tuple(sorted([*folder.glob("*.cubin"), *folder.glob("*.hsaco"), *folder.glob("*.so")]))
        yield Found(
            name=name or (outputs[0].stem if outputs else folder.name),
            path=folder,
            owner="triton",
            version=str(content.get("triton_version", "")),
            arch=f"sm_{capability}" if isinstance(capability, int) else str(capability or ""),
            outputs=outputs,
            addressed=True,
            note="" if name else "a launcher or helper, without a description of its own",
        )


CACHE = Cache("triton", _place, _entries)
