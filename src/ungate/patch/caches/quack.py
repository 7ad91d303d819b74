"""quack-kernels: exported CuTe DSL objects, in ``QUACK_CACHE_DIR`` (quack/cache_utils.py)."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("quack", {"QUACK_CACHE_DIR": ""}, {})
