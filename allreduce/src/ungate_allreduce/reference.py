"""What the kernels compute, bit by bit, in NumPy; and a float64 reference that says how accurate that is.

Tensors are the bits of their elements: uint16 for float16 and bfloat16, uint32 for float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .variant import Dtype

__all__ = [
    "allreduce",
    "bits",
    "e2m1",
    "e4m3",
    "e4m3_value",
    "fp8_static",
    "fp8_token",
    "fused",
    "fused_float64",
    "normalised",
    "nvfp4",
    "values",
]

Bits = npt.NDArray[Any]
F32 = npt.NDArray[np.float32]
_F32 = np.float32


def values(tensor: Bits, dtype: Dtype) -> F32:
    """Elements as float32, exactly."""
    if dtype is Dtype.FLOAT32:
        return tensor.view(np.float32)
    if dtype is Dtype.FLOAT16:
        return tensor.view(np.float16).astype(np.float32)
    return (tensor.astype(np.uint32) << 16).view(np.float32)


def bits(value: F32, dtype: Dtype) -> Bits:
    """float32 rounded to nearest even; NaN becomes the dtype's canonical NaN."""
    if dtype is Dtype.FLOAT32:
        return np.ascontiguousarray(value).view(np.uint32)
    if dtype is Dtype.FLOAT16:
        with np.errstate(over="ignore"):
            half = value.astype(np.float16).view(np.uint16)
        return np.where(np.isnan(value), np.uint16(0x7FFF), half)
    raw = np.ascontiguousarray(value).view(np.uint32).astype(np.uint64)
    rounded = ((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(value), np.uint16(0x7FFF), rounded)


def allreduce(inputs: Sequence[Bits], dtype: Dtype) -> Bits:
    """Sum in float32 in rank order, rounded once. Same bits on all ranks, whatever the transport."""
    with np.errstate(all="ignore"):
        total = values(inputs[0], dtype).copy()
        for other in inputs[1:]:
            total = total + values(other, dtype)
    return bits(total, dtype)


def _leaves(value: F32, dtype: Dtype) -> F32:
    per_word = 4 // dtype.size
    rows, hidden = value.shape
    words = -(-hidden // per_word)
    padded = np.zeros((rows, -(-words // 64) * 64 * per_word), np.float32)
    padded[:, :hidden] = value
    if per_word == 1:
        square = padded * padded
    else:
        wide = padded.astype(np.float64)
        low = (wide[:, 0::2] ** 2).astype(np.float32)
        square = (wide[:, 1::2] ** 2 + low.astype(np.float64)).astype(np.float32)
    tree = square.reshape(rows, -1, 64)
    while tree.shape[2] > 1:
        tree = tree[:, :, 0::2] + tree[:, :, 1::2]
    return tree[:, :, 0]


def _row_scale(value: F32, dtype: Dtype, epsilon: float) -> F32:
    leaf = _leaves(value, dtype)
    rows, count = leaf.shape
    padded = np.zeros((rows, -(-count // 32) * 32), np.float32)
    padded[:, :count] = leaf
    turns = padded.reshape(rows, -1, 32)
    lanes = turns[:, 0]
    for turn in range(1, turns.shape[1]):
        lanes = lanes + turns[:, turn]
    while lanes.shape[1] > 1:
        lanes = lanes[:, 0::2] + lanes[:, 1::2]
    mean = lanes[:, 0] * _F32(1.0 / value.shape[1]) + _F32(epsilon)
    return (1.0 / np.sqrt(mean.astype(np.float64))).astype(np.float32)


def fused(
    inputs: Sequence[Bits], residual: Bits, weight: Bits, epsilon: float, dtype: Dtype, *, gemma: bool = False
) -> tuple[Bits, Bits]:
    """Normalised rows and new residual, ``[rows, hidden]``, as bits of ``dtype``."""
    y, new = normalised(inputs, residual, weight, epsilon, dtype, gemma=gemma)
    return bits(y, dtype), new


def normalised(
    inputs: Sequence[Bits], residual: Bits, weight: Bits, epsilon: float, dtype: Dtype, *, gemma: bool = False
) -> tuple[F32, Bits]:
    """Normalised rows in float32, before any rounding, and the new residual's bits."""
    with np.errstate(all="ignore"):
        total = values(allreduce(inputs, dtype), dtype) + values(residual, dtype)
        new = bits(total, dtype)
        row = values(new, dtype)
        gain = values(weight, dtype)
        if gemma:
            gain = _F32(1.0) + gain
        scale = _row_scale(row, dtype, epsilon)
        return (row * scale[:, None]) * gain[None, :], new


def fused_float64(
    inputs: Sequence[Bits], residual: Bits, weight: Bits, epsilon: float, dtype: Dtype, *, gemma: bool = False
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Normalised rows and residual with no rounding at all."""
    total = sum(values(one, dtype).astype(np.float64) for one in inputs) + values(residual, dtype)
    wide = np.asarray(total, np.float64)
    gain = values(weight, dtype).astype(np.float64) + (1.0 if gemma else 0.0)
    scale = 1.0 / np.sqrt(np.mean(wide**2, axis=1, keepdims=True) + epsilon)
    return wide * scale * gain, wide


def e4m3(value: F32) -> npt.NDArray[np.uint8]:
    """Codes of e4m3 with saturation to 448; NaN becomes 0x7f."""
    raw = np.ascontiguousarray(value, np.float32).view(np.uint32)
    sign = (raw >> 24) & 0x80
    magnitude = raw & 0x7FFFFFFF
    with np.errstate(all="ignore"):
        small = np.rint(magnitude.view(np.float32) * _F32(512.0))
    steps = np.where(magnitude < 0x3C800000, small, 0).astype(np.uint32)
    rounded = (magnitude.astype(np.uint64) + 0x7FFFF + ((magnitude >> 20) & 1)) >> 20
    normal = np.minimum(rounded.astype(np.int64) - (120 << 3), 0x7E).astype(np.uint32)
    code = np.where(magnitude < 0x3C800000, steps, normal)
    code = np.where(magnitude >= 0x43E80000, 0x7E, code) | sign
    return np.where(magnitude > 0x7F800000, 0x7F, code).astype(np.uint8)


def e4m3_value(code: npt.NDArray[np.uint8]) -> F32:
    """Value of non-negative finite e4m3 codes."""
    exponent, mantissa = (code >> 3) & 15, (code & 7).astype(np.float32)
    normal = np.ldexp(1.0 + mantissa / 8.0, exponent.astype(np.int32) - 7)
    return np.where(exponent == 0, mantissa * 2.0**-9, normal).astype(np.float32)


def fp8_static(y: F32, scale: float) -> npt.NDArray[np.uint8]:
    """Rows divided by a given scale."""
    with np.errstate(all="ignore"):
        return e4m3(y * (_F32(1.0) / _F32(scale)))


def fp8_token(y: F32) -> tuple[npt.NDArray[np.uint8], F32]:
    """Rows with a scale of their own: largest magnitude / 448, at least 1 / (448 * 512)."""
    with np.errstate(all="ignore"):
        most = np.fmax.reduce(np.abs(y), axis=1)
        scale = np.fmax(most / _F32(448.0), _F32(4.3596540e-06)).astype(np.float32)
        return e4m3(y * (_F32(1.0) / scale)[:, None]), scale


def e2m1(value: F32) -> npt.NDArray[np.uint8]:
    """Codes of e2m1 with saturation to 6, ties to the even code."""
    m = np.abs(value)
    code = (m > 0.25).astype(np.uint8) + (m >= 0.75) + (m > 1.25) + (m >= 1.75) + (m > 2.5) + (m >= 3.5) + (m > 5.0)
    sign = ((np.ascontiguousarray(value, np.float32).view(np.uint32) >> 28) & 8).astype(np.uint8)
    return np.where(np.isnan(value), np.uint8(7), code.astype(np.uint8) | sign)


def nvfp4(y: F32, global_scale: float) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Two values a byte (first in the low nibble) and one e4m3 scale for each 16 elements, row by row.

    e2m1 has no NaN: a block that holds one has NaN as its scale.
    """
    rows, hidden = y.shape
    blocks = y.reshape(rows, hidden // 16, 16)
    with np.errstate(all="ignore"):
        most = np.max(np.abs(blocks), axis=2)
        scales = e4m3(_F32(global_scale) * (most * _F32(0.16666667)))
        value = np.where(scales == 0x7F, _F32(0.0), e4m3_value(scales))
        inverse = np.where(value != 0, _F32(global_scale) / value, _F32(0.0)).astype(np.float32)
        codes = e2m1(blocks * inverse[:, :, None]).reshape(rows, hidden)
    packed: npt.NDArray[np.uint8] = (codes[:, 0::2] | (codes[:, 1::2] << 4)).astype(np.uint8)
    return packed, scales
