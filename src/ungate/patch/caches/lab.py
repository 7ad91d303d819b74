"""The lab's kernel library: ``<version>/<arch>/cached_ops`` below the folder that the variable names."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("lab", {"LAB_KERNELS_CACHE": ""}, {})
