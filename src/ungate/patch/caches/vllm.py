"""vLLM: output of its compiler and its DeepGEMM kernels, below ``VLLM_CACHE_ROOT`` (vllm/envs.py)."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("vllm", {"VLLM_CACHE_ROOT": ""}, {})
