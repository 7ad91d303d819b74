"""apache-tvm-ffi: modules that others compile through it, in ``TVM_FFI_CACHE_DIR`` (tvm_ffi/cpp/extension.py)."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("tvm_ffi", {"TVM_FFI_CACHE_DIR": ""}, {})
