"""torch.utils.cpp_extension: extensions compiled on first use, in ``TORCH_EXTENSIONS_DIR``."""

from __future__ import annotations

from ungate.patch.caches import Cache

__all__ = ["CACHE"]

CACHE = Cache("torch_extensions", {"TORCH_EXTENSIONS_DIR": ""}, {})
