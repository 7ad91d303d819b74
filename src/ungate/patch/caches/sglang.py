"""SGLang: output of its compile backend, in ``SGLANG_CACHE_DIR`` (sglang/srt/compilation/backend.py)."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("sglang", {"SGLANG_CACHE_DIR": ""}, {})
