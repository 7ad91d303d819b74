"""torch.compile: Inductor output, in ``TORCHINDUCTOR_CACHE_DIR`` (torch/_inductor/runtime/cache_dir_utils.py)."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("inductor", {"TORCHINDUCTOR_CACHE_DIR": ""}, {})
