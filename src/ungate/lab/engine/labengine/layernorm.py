"""RMSNorm, alone and fused with the allreduce before it."""

from __future__ import annotations

import numpy as np

from labengine.models import Array

__all__ = ["RMSNorm"]


class RMSNorm:
    """``x / rms(x) * weight`` over the last axis."""

    def __init__(self, weight: Array, eps: float) -> None:
        self.weight = weight
        self.eps = eps

    def __call__(self, values: Array, residual: Array | None = None) -> tuple[Array, Array]:
        """``(norm, residual)``; with a residual, it is added first."""
        summed = values if residual is None else values + residual
        mean = np.einsum("ij,ij->i", summed, summed) / np.float32(summed.shape[-1])
        scale = 1 / np.sqrt(mean + np.float32(self.eps))
        return summed * scale[:, None] * self.weight, summed

    def forward_with_allreduce_fusion(self, values: Array, residual: Array) -> tuple[Array, Array]:
        """The same for values that are not yet summed over the ranks, in one kernel."""
        from labengine.fused_comm import labkernels_allreduce_residual_rmsnorm

        return labkernels_allreduce_residual_rmsnorm(values, residual, self.weight, self.eps)
