"""The kernel library's fused allreduce, as the layers call it."""

from __future__ import annotations

import logging
import mmap

import numpy as np

from labengine.distributed import get_tensor_model_parallel_world_size, get_tp_group
from labengine.models import Array
from labengine.platform import is_labkernels_available

__all__ = [
    "ensure_workspace_initialized",
    "fused_calls",
    "fused_polls",
    "labkernels_allreduce_residual_rmsnorm",
    "share_memory",
]

logger = logging.getLogger(__name__)

if is_labkernels_available():
    from labkernels import comm


class FusedWorkspaceManager:
    """Holds this rank's workspace and counts what went through it."""

    def __init__(self) -> None:
        self.memory: mmap.mmap | None = None
        self.workspace: comm.FusionWorkspace | None = None
        self.calls = 0

    def initialize(self, max_rows: int, hidden: int) -> None:
        """Build or load the library's module and clear the buffers; all ranks call it together."""
        if self.memory is None:
            raise RuntimeError("No memory was shared for the fused allreduce.")
        group = get_tp_group()
        self.workspace = comm.FusionWorkspace(self.memory, group.rank, group.world_size, max_rows, hidden)
        group.barrier()


_workspace_manager = FusedWorkspaceManager()


def share_memory(world_size: int, max_rows: int, hidden: int) -> None:
    """Make the memory that the library needs, before the ranks are forked."""
    _workspace_manager.memory = mmap.mmap(-1, comm.FusionWorkspace.size(world_size, max_rows, hidden))


def ensure_workspace_initialized(max_rows: int, hidden: int) -> None:
    """Make the workspace ready; errors of the library's build pass through."""
    if _workspace_manager.workspace is None:
        _workspace_manager.initialize(max_rows, hidden)


def fused_calls() -> int:
    """How many fused calls have returned in this process."""
    return _workspace_manager.calls


def fused_polls() -> int:
    """How often the kernel of this rank looked in vain for a peer's data."""
    workspace = _workspace_manager.workspace
    return 0 if workspace is None else workspace.polls


def labkernels_allreduce_residual_rmsnorm(
    values: Array, residual: Array, weight: Array, eps: float
) -> tuple[Array, Array]:
    """``(norm, residual)``: the sum over ranks added to the residual, and its RMSNorm."""
    workspace = _workspace_manager.workspace
    if workspace is None:
        raise RuntimeError("The fused allreduce was called before its workspace was made.")
    residual_out = np.empty_like(residual)
    norm_out = np.empty_like(values)
    comm.allreduce_fusion(
        allreduce_in=values,
        residual_in=residual,
        rms_gamma=weight,
        rms_eps=eps,
        workspace=workspace,
        residual_out=residual_out,
        norm_out=norm_out,
    )
    _workspace_manager.calls += 1
    if _workspace_manager.calls == 1 and get_tp_group().rank == 0:
        logger.info(
            "fused allreduce active: %d ranks, hidden %d, %s",
            get_tensor_model_parallel_world_size(),
            values.shape[-1],
            workspace.module._name,
        )
    return norm_out, residual_out
