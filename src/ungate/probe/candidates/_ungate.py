"""ungate-allreduce as its formula chooses for a message, over one of its transports."""

from __future__ import annotations

import importlib
from typing import Any

from ungate.probe.candidates import Facts, Operation, Ranks, Unavailable
from ungate.probe.candidates._facts import needs_module

__all__ = ["Reduction", "installed"]


class Reduction(Operation):
    """A workspace for the largest message; without a fallback, so that no message is left to NCCL."""

    def __init__(self, ranks: Ranks, transport: str) -> None:
        package = importlib.import_module("ungate_allreduce")
        unsupported = importlib.import_module("ungate_allreduce.errors").Unsupported
        try:
            self._workspace = package.Workspace.create(
                ranks.group, max_bytes=ranks.max_bytes, deadline_s=ranks.timeout_s, transport=transport
            )
        except unsupported as error:
            raise Unavailable(str(error)) from error
        self._all_reduce = package.all_reduce

    def __call__(self, source: Any, out: Any) -> None:
        self._all_reduce(source, self._workspace, out=out)

    def close(self) -> None:
        self._workspace.check()
        self._workspace.close()


def installed(facts: Facts) -> str:
    """Whether this Python has it."""
    return needs_module(facts, "ungate_allreduce", "ungate-allreduce; install it there: pip install ungate-allreduce")
