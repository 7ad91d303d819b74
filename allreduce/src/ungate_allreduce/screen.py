"""Messages that a reduction gets wrong when it is wrong, and the comparison with the reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import reference
from .variant import Dtype

__all__ = ["KINDS", "Message", "differences", "draw"]

Bits = npt.NDArray[Any]
KINDS = ("normal", "zeros", "negative zeros", "denormal", "infinite", "nan payloads", "huge", "mixed")
"""Fillings of a message. NaN payloads include the word that the sentinel format uses for "not arrived"."""
EPSILON = 1e-6


@dataclass(frozen=True)
class Message:
    """Every rank's input ``[rows, hidden]``, and the residual and weight that all ranks share, as bits."""

    dtype: Dtype
    kind: str
    inputs: tuple[Bits, ...]
    residual: Bits
    weight: Bits

    @property
    def rows(self) -> int:
        """Tokens."""
        return int(self.residual.shape[0])

    @property
    def hidden(self) -> int:
        """Elements of a row."""
        return int(self.residual.shape[1])


def _fill(kind: str, shape: tuple[int, int], dtype: Dtype, random: np.random.Generator) -> Bits:
    integer: Any = np.uint32 if dtype is Dtype.FLOAT32 else np.uint16
    normal = reference.bits(random.standard_normal(shape).astype(np.float32), dtype)
    if kind == "normal":
        return normal
    if kind == "zeros":
        return np.zeros(shape, integer)
    if kind == "negative zeros":
        return np.full(shape, 0x80000000 if dtype is Dtype.FLOAT32 else 0x8000, integer)
    if kind == "denormal":
        limit = {Dtype.FLOAT32: 1 << 23, Dtype.FLOAT16: 1 << 10, Dtype.BFLOAT16: 1 << 7}[dtype]
        return random.integers(0, limit, shape).astype(integer)
    if kind == "huge":
        top = {Dtype.FLOAT32: 1e38, Dtype.FLOAT16: 6e4, Dtype.BFLOAT16: 1e38}[dtype]
        return reference.bits((random.standard_normal(shape) * top).clip(-top, top).astype(np.float32), dtype)
    special = normal.copy()
    places = random.random(shape)
    if kind in ("infinite", "mixed"):
        infinite = reference.bits(np.array([np.inf, -np.inf], np.float32), dtype)
        special[places < 0.002] = infinite[0]
        special[(places > 0.002) & (places < 0.004)] = infinite[1]
    if kind in ("nan payloads", "mixed"):
        # All ones is the sentinel's word when both halves have it; so are runs of it, which fill whole lines.
        special[(places > 0.99) & (places < 0.995)] = np.iinfo(integer).max
        width = max(1, shape[1] // 8)
        start = int(random.integers(0, max(1, shape[1] - width)))
        special[:: max(1, shape[0] // 2), start : start + width] = np.iinfo(integer).max
    return special


def draw(kind: str, world: int, rows: int, hidden: int, dtype: Dtype, seed: int) -> Message:
    """A message, the same in every process for the same arguments."""
    random = np.random.default_rng([seed, KINDS.index(kind), world, rows, hidden, int(dtype)])
    inputs = tuple(_fill(kind, (rows, hidden), dtype, random) for _ in range(world))
    residual = _fill("normal", (rows, hidden), dtype, random)
    weight = _fill("normal", (1, hidden), dtype, random)[0]
    return Message(dtype, kind, inputs, residual, weight)


def differences(got: Bits, want: Bits, dtype: Dtype) -> int:
    """Elements that are not the same bits, where any NaN equals any NaN."""
    same = got == want
    if not same.all():
        same |= np.isnan(reference.values(got, dtype)) & np.isnan(reference.values(want, dtype))
    return int((~same).sum())


def shapes() -> Iterator[tuple[int, int]]:
    """Rows and hidden sizes around every threshold of the cut: lines, leaves, parts, odd and tiny rows."""
    yield from ((1, 1), (1, 2), (1, 3), (2, 7), (1, 64), (3, 127), (1, 128), (2, 129), (5, 257), (1, 1023))
    yield from ((4, 1024), (2, 2049), (1, 4096), (3, 4095), (2, 5120), (7, 4096), (1, 8192), (2, 8200), (1, 16384))
