"""CuTe DSL (nvidia-cutlass-dsl): compiled functions, in ``CUTE_DSL_CACHE_DIR``."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("cute_dsl", {"CUTE_DSL_CACHE_DIR": ""}, {})
