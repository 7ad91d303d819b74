"""FlashInfer's TRT-LLM kernels with the pattern that only reduces, one-shot or two-shot."""

from __future__ import annotations

import importlib
from typing import Any

from ungate.probe.candidates import Facts, Operation, Ranks
from ungate.probe.candidates._facts import needs_module, needs_peers

__all__ = ["COMPILES_S", "Fusion", "needs_flashinfer"]

COMPILES_S = 900.0
"""Seconds that a first use may take: the module compiles for 255 s on 2 cores (FlashInfer 0.6.3, nvcc 13.0)."""

_WIDEST = 4096  # elements of a row: what the engines' hidden sizes are about
_LAMPORT_MOST = 2 << 30  # bytes a rank; above it FlashInfer itself leaves one-shot (MAX_COMM_SIZE of trtllm_ar.py)


class Fusion(Operation):
    """``trtllm_allreduce_fusion`` as the engines call it, without residual and norm."""

    def __init__(self, ranks: Ranks, *, one_shot: bool) -> None:
        self._comm: Any = importlib.import_module("flashinfer.comm")
        self._ranks, self._one_shot = ranks, one_shot
        self._size = ranks.dtype.itemsize
        rows = -(-ranks.max_bytes // (_WIDEST * self._size))
        made = self._comm.trtllm_create_ipc_workspace_for_all_reduce_fusion(
            ranks.rank, ranks.world, rows, _WIDEST, use_fp32_lamport=self._size == 4, group=ranks.group
        )
        self._handles, self._workspace = made[0], made[1]

    def refuses(self, rows: int, hidden: int) -> str:
        world = self._ranks.world
        if hidden * self._size % 16:
            return "It takes rows of whole 16-byte vectors."
        if not self._one_shot and rows <= world:
            return f"FlashInfer takes two shots only for more rows than ranks, and these are {rows} for {world}."
        if self._one_shot and rows * hidden * self._size * world > _LAMPORT_MOST:
            return "FlashInfer leaves one-shot for a message of this size."
        return ""

    def __call__(self, source: Any, out: Any) -> None:
        rows, hidden = source.shape
        self._comm.trtllm_allreduce_fusion(
            allreduce_in=source,
            world_size=self._ranks.world,
            world_rank=self._ranks.rank,
            token_num=rows,
            hidden_dim=hidden,
            workspace_ptrs=self._workspace,
            launch_with_pdl=True,
            trigger_completion_at_end=False,
            fp32_acc=True,
            pattern_code=self._comm.AllReduceFusionPattern.kAllReduce,
            use_oneshot=self._one_shot,
            allreduce_out=out,
            residual_in=None,
            residual_out=None,
            norm_out=None,
            quant_out=None,
            scale_out=None,
            rms_gamma=None,
            rms_eps=None,
            scale_factor=None,
            layout_code=None,
        )

    def close(self) -> None:
        self._comm.trtllm_destroy_ipc_workspace_for_all_reduce_fusion(self._handles, group=self._ranks.group)


def needs_flashinfer(facts: Facts) -> str:
    """Whether FlashInfer is there, and peer access, which all its kernels of one host need."""
    return needs_module(facts, "flashinfer", "flashinfer-python") or needs_peers(facts)
