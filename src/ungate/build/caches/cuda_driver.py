"""The CUDA driver: PTX it compiled on load, in ``$CUDA_CACHE_PATH`` or ``~/.nv/ComputeCache``.

It is the driver's own, keyed by the PTX and the driver's version, and has no file an outsider can read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.build.caches import Cache, Found, home

__all__ = ["CACHE"]


def _place(variables: Mapping[str, str]) -> Path:
    chosen = variables.get("CUDA_CACHE_PATH")
    return Path(chosen) if chosen else home(variables) / ".nv" / "ComputeCache"


def _entries(root: Path) -> Iterator[Found]:
    if any(root.iterdir()):
        yield Found(
            "ComputeCache", root, "the NVIDIA driver", addressed=True, note="the driver keeps it in order itself"
        )


CACHE = Cache("cuda_driver", _place, _entries, layout="its layout is known from its documentation alone")
