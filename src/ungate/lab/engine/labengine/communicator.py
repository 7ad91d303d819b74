"""What happens between two blocks of a layer: sum over the ranks, add the residual, normalise."""

from __future__ import annotations

from labengine.distributed import get_tensor_model_parallel_world_size, tensor_model_parallel_all_reduce
from labengine.fused_comm import ensure_workspace_initialized
from labengine.layernorm import RMSNorm
from labengine.models import Array
from labengine.platform import is_labkernels_available, is_sm90_supported, is_sm100_supported
from labengine.server_args import get_global_server_args

__all__ = ["FUSE_ALLREDUCE_MAX_BATCH_SIZE", "LayerCommunicator", "apply_fused_allreduce"]

_is_labkernels_available = is_labkernels_available()
_is_sm90_supported = is_sm90_supported()
_is_sm100_supported = is_sm100_supported()

FUSE_ALLREDUCE_MAX_BATCH_SIZE = 64


def apply_fused_allreduce(batch_size: int) -> bool:
    """Whether a call with this many rows takes the fused kernel."""
    return (
        (_is_sm90_supported or _is_sm100_supported)
        and _is_labkernels_available
        and batch_size > 0
        and batch_size <= FUSE_ALLREDUCE_MAX_BATCH_SIZE
        and get_tensor_model_parallel_world_size() > 1
        and get_global_server_args().enable_fused_allreduce
    )


class LayerCommunicator:
    """The seam between the blocks of one rank's layers."""

    def __init__(self, hidden: int) -> None:
        if apply_fused_allreduce(1):
            ensure_workspace_initialized(FUSE_ALLREDUCE_MAX_BATCH_SIZE, hidden)

    def reduce_and_norm(self, values: Array, residual: Array, layernorm: RMSNorm) -> tuple[Array, Array]:
        """``(norm, residual)`` from this rank's partial sums."""
        if apply_fused_allreduce(values.shape[0]) and hasattr(layernorm, "forward_with_allreduce_fusion"):
            return layernorm.forward_with_allreduce_fusion(values, residual)
        return layernorm(tensor_model_parallel_all_reduce(values), residual)
