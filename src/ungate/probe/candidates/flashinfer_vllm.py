"""vLLM's custom allreduce as FlashInfer ships it."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from ungate.probe.candidates import Candidate, Facts, Operation, Ranks
from ungate.probe.candidates._facts import needs_worlds
from ungate.probe.candidates._flashinfer import COMPILES_S, needs_flashinfer

_CTAS = 36  # blocks; what vLLM passes
_TABLE_BYTES = 8 << 20  # addresses of registered buffers; what vLLM allocates
_LARGEST = 8 << 20  # bytes of a message that vLLM gives to it


class _Custom(Operation):
    def __init__(self, ranks: Ranks) -> None:
        import torch

        self._comm: Any = importlib.import_module("flashinfer.comm")
        shared: Any = importlib.import_module("flashinfer.comm.cuda_ipc").create_shared_buffer
        self._ranks, self._size = ranks, ranks.max_bytes
        self._metadata = shared(self._comm.vllm_meta_size() + self._size, ranks.group)
        self._buffers = shared(self._size, ranks.group)
        self._table = torch.empty(_TABLE_BYTES, dtype=torch.uint8, device=ranks.device)
        # True: at 4 and 8 ranks its kernels launch nothing where told that there is no NVLink (flashinfer#4393).
        self._handle = self._comm.vllm_init_custom_ar(self._metadata, self._table, ranks.rank, True)
        self._comm.vllm_register_buffer(self._handle, self._buffers)

    def refuses(self, rows: int, hidden: int) -> str:
        size = rows * hidden * self._ranks.dtype.itemsize
        return "It takes messages of whole 16-byte vectors up to 8 MiB." if size % 16 or size > _LARGEST else ""

    def __call__(self, source: Any, out: Any) -> None:
        own = self._buffers[self._ranks.rank]
        self._comm.vllm_all_reduce(self._handle, source, out, own, self._size, _CTAS)

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        # In a graph it reads its input where that lies, once the addresses of all ranks are registered.
        import torch.distributed as dist

        yield
        handles, offsets = self._comm.vllm_get_graph_buffer_ipc_meta(self._handle)
        everyone: list[Any] = [None] * self._ranks.world
        dist.all_gather_object(everyone, (list(handles), list(offsets)), group=self._ranks.group)
        self._comm.vllm_register_graph_buffers(self._handle, [one[0] for one in everyone], [one[1] for one in everyone])

    def close(self) -> None:
        self._comm.vllm_dispose(self._handle)


def _unavailable(facts: Facts) -> str:
    return needs_flashinfer(facts) or needs_worlds(facts, 2, 4, 6, 8)


CANDIDATE = Candidate(
    name="flashinfer-vllm",
    what="vLLM's custom allreduce as FlashInfer ships it (vllm_all_reduce), told that there is NVLink",
    how="no engine takes it from FlashInfer: vLLM and SGLang have copies of their own",
    device="cuda",
    open=_Custom,
    unavailable=_unavailable,
    setup_s=COMPILES_S,
)
