"""TileLang: kernels, in ``TILELANG_CACHE_DIR`` (tilelang/env.py)."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("tilelang", {"TILELANG_CACHE_DIR": ""}, {})
