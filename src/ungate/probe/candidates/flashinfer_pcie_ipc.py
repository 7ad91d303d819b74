"""FlashInfer's allreduce over CUDA IPC for GPUs on PCIe, since 0.7."""

from __future__ import annotations

import importlib
from typing import Any

from ungate.probe.candidates import Candidate, Facts, Operation, Ranks, Unavailable
from ungate.probe.candidates._facts import needs_worlds
from ungate.probe.candidates._flashinfer import COMPILES_S, needs_flashinfer


class _PcieIpc(Operation):
    def __init__(self, ranks: Ranks) -> None:
        comm: Any = importlib.import_module("flashinfer.comm")
        if not hasattr(comm, "PcieIpcAllReduceWorkspace"):
            raise Unavailable("This FlashInfer has no PcieIpcAllReduceWorkspace; it came with 0.7.")
        if ranks.dtype.itemsize != 2:
            raise Unavailable("It reduces bfloat16 and float16 only.")
        self._workspace = comm.PcieIpcAllReduceWorkspace(
            group=ranks.group, max_numel=ranks.max_bytes // ranks.dtype.itemsize, dtype=ranks.dtype
        )
        self._size = ranks.dtype.itemsize

    def refuses(self, rows: int, hidden: int) -> str:
        return "It takes messages of whole 16-byte vectors." if rows * hidden * self._size % 16 else ""

    def __call__(self, source: Any, out: Any) -> None:
        self._workspace.all_reduce(source, out=out)

    def close(self) -> None:
        self._workspace.destroy()


def _unavailable(facts: Facts) -> str:
    return needs_flashinfer(facts) or needs_worlds(facts, 2, 4, 8)


CANDIDATE = Candidate(
    name="flashinfer-pcie-ipc",
    what="FlashInfer's PcieIpcAllReduceWorkspace, tuned where its cache holds a tuning for this machine",
    how="SGLANG_ENABLE_PCIE_IPC_ALLREDUCE or VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC in the environment of the server",
    device="cuda",
    open=_PcieIpc,
    unavailable=_unavailable,
    setup_s=COMPILES_S,
)
