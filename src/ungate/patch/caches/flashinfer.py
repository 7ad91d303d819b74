"""FlashInfer: modules built by ninja, below ``$FLASHINFER_WORKSPACE_BASE/.cache/flashinfer`` (flashinfer/jit/env.py).

Downloaded cubins lie there too unless ``FLASHINFER_CUBIN_DIR`` says otherwise; they are checked against their sha256
and stay shared.
"""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("flashinfer", {"FLASHINFER_WORKSPACE_BASE": ""}, {"FLASHINFER_CUBIN_DIR": ".cache/flashinfer/cubins"})
