"""The class ``CustomAllreduce`` of vLLM, which SGLang has a copy of."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from typing import Any

from ungate.probe.candidates import Facts, Operation, Ranks, Unavailable
from ungate.probe.candidates._facts import needs_module, needs_peers, needs_worlds

__all__ = ["Custom", "needs_engine"]


class Custom(Operation):
    """``CustomAllreduce`` of ``module``, made as the engine makes it: with its own checks of the machine."""

    def __init__(self, ranks: Ranks, module: str, engine: str) -> None:
        kind: Any = importlib.import_module(module).CustomAllreduce
        self._dtype = ranks.dtype
        self._custom = kind(ranks.group, ranks.device)
        if hasattr(self._custom, "finalize_p2p"):  # vLLM defers its check of the peer path to it
            self._custom.finalize_p2p()
        if self._custom.disabled:
            raise Unavailable(f"{engine} disables its custom allreduce on this machine; its log says why.")

    def refuses(self, rows: int, hidden: int) -> str:
        import torch

        message = torch.empty((rows, hidden), dtype=self._dtype, device=self._custom.device)
        return "" if self._custom.should_custom_ar(message) else "The engine leaves a message of this size to NCCL."

    def __call__(self, source: Any, out: Any) -> None:
        import torch

        self._custom.all_reduce(source, out=out, registered=torch.cuda.is_current_stream_capturing())

    def capturing(self) -> AbstractContextManager[None]:
        context: AbstractContextManager[None] = self._custom.capture()
        return context

    def close(self) -> None:
        self._custom.close()


def needs_engine(facts: Facts, module: str, engine: str) -> str:
    """Whether the engine is there, and peer access, which its kernels need."""
    return needs_module(facts, module, engine) or needs_peers(facts) or needs_worlds(facts, 2, 4, 6, 8)
