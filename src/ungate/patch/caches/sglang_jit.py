"""SGLang's own JIT, in ``SGLANG_JIT_CACHE_DIR``: ``SGLANG_CACHE_DIR`` does not move it (0.5.23, compile/cache.py)."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("sglang_jit", {"SGLANG_JIT_CACHE_DIR": ""}, {})
