"""apache-tvm-ffi: modules that others compile through it, in ``$TVM_FFI_CACHE_DIR`` or ``~/.cache/tvm-ffi``.

A folder is named by module and a hash of sources and flags (tvm_ffi/cpp/extension.py), but not of the headers, so
ninja's record of them decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.build import ninja
from ungate.build.caches import Cache, Found, home

__all__ = ["CACHE"]


def _place(variables: Mapping[str, str]) -> Path:
    chosen = variables.get("TVM_FFI_CACHE_DIR")
    return Path(chosen) if chosen else home(variables) / ".cache" / "tvm-ffi"


def _entries(root: Path) -> Iterator[Found]:
    for description in sorted(root.rglob("build.ninja")):
        folder = description.parent
        yield Found(
            name=folder.name,
            path=folder,
            owner="apache-tvm-ffi",
            inputs=ninja.inputs(folder),
            outputs=tuple(sorted(folder.glob("*.so"))),
            locks=tuple(folder.glob("*lock")),
        )


CACHE = Cache("tvm_ffi", _place, _entries, layout="its layout is known from its source alone")
