"""DeepGEMM: kernels, in ``DG_JIT_CACHE_DIR``.

SGLang sets that variable itself from ``SGLANG_DG_CACHE_DIR``
(sglang/srt/layers/deep_gemm_wrapper/compile_utils.py), so both are given.
"""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("deep_gemm", {"DG_JIT_CACHE_DIR": "", "SGLANG_DG_CACHE_DIR": ""}, {})
