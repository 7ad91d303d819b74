"""Fused allreduce + residual + RMSNorm for GPUs without a peer-to-peer path.

import torch.distributed as dist
from ungate_allreduce import Workspace, fused_allreduce_residual_rmsnorm

dist.init_process_group("gloo")
workspace = Workspace.create()
out, residual = fused_allreduce_residual_rmsnorm(x, residual, weight, 1e-6, workspace)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .ops import (
        all_reduce,
        fused_allreduce_residual_rmsnorm,
        fused_allreduce_residual_rmsnorm_fp8,
        fused_allreduce_residual_rmsnorm_fp8_token,
        fused_allreduce_residual_rmsnorm_nvfp4,
    )
    from .workspace import Workspace

__all__ = [
    "Workspace",
    "__version__",
    "all_reduce",
    "fused_allreduce_residual_rmsnorm",
    "fused_allreduce_residual_rmsnorm_fp8",
    "fused_allreduce_residual_rmsnorm_fp8_token",
    "fused_allreduce_residual_rmsnorm_nvfp4",
]


def __getattr__(name: str) -> Any:
    # torch is imported by the first use, so that compiling and checking need none.
    if name not in __all__:
        raise AttributeError(name)
    if name == "Workspace":
        from .workspace import Workspace

        return Workspace
    from . import ops

    return getattr(ops, name)
