"""Token-id prompts of an exact length that share no prefix, so that no prefix cache can help.

A prompt of token ids has the length that was asked for on every server: no tokenizer, no template
and no decode/encode round trip stands between.
"""

from __future__ import annotations

import zlib

import numpy as np

from ungate.model import Cell

__all__ = ["TOKEN_RANGE", "prompt", "stream_seed"]

TOKEN_RANGE: tuple[int, int] = (32, 250)
"""Half-open range of ids that prompts are drawn from.

In byte-level vocabularies (GPT-2, Llama 3, Qwen) these ids are single bytes; no special token of a
common tokenizer lies there, and every vocabulary of 256 ids or more has them.
"""


def stream_seed(cell: Cell, purpose: str, seed: int) -> int:
    """A seed that differs for each cell, purpose (warm-up, measurement) and run seed."""
    return zlib.crc32(f"{cell}/{purpose}/{seed}".encode())


def prompt(seed: int, index: int, length: int, token_range: tuple[int, int] = TOKEN_RANGE) -> list[int]:
    """``length`` token ids of request ``index``: the same on every call, different from every other index.

    Consecutive indices differ in their first token already, so a cache with blocks of one token has
    nothing to share until ``token_range`` is used up.
    """
    low, high = token_range
    tokens: list[int] = np.random.default_rng([seed, index]).integers(low, high, size=length).tolist()
    if tokens:
        tokens[0] = low + (seed + index) % (high - low)
    return tokens
