"""Triton: compiled kernels and the launcher stubs, in ``TRITON_CACHE_DIR`` (triton/knobs.py)."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("triton", {"TRITON_CACHE_DIR": ""}, {})
