"""Sentences that several candidates say when they cannot run."""

from __future__ import annotations

from ungate.probe.candidates import Facts

__all__ = ["needs_module", "needs_nccl", "needs_peers", "needs_worlds"]


def needs_nccl(facts: Facts) -> str:
    """Whether this PyTorch has NCCL."""
    return "" if facts.nccl else f"PyTorch {facts.torch} of this Python was built without NCCL."


def needs_peers(facts: Facts) -> str:
    """Whether the GPUs may access each other's memory."""
    if facts.peer:
        return ""
    known = (
        "have no access to each other's memory" if facts.peer is False else "do not say whether they have peer access"
    )
    return f"The GPUs {known}, and it works through that. See: ungate doctor"


def needs_module(facts: Facts, module: str, distribution: str) -> str:
    """Whether this Python can import ``module``."""
    return "" if module in facts.modules else f"This Python has no {distribution}."


def needs_worlds(facts: Facts, *worlds: int) -> str:
    """Whether the candidate knows this number of ranks."""
    if facts.world in worlds:
        return ""
    return f"It is made for {', '.join(map(str, worlds))} ranks, and {facts.world} were asked for."
