"""The CUDA driver: PTX compiled on load, in ``CUDA_CACHE_PATH`` (CUDA C++ Programming Guide, environment variables)."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("cuda_driver", {"CUDA_CACHE_PATH": ""}, {})
