from __future__ import annotations

import numpy as np
import pytest

from ungate_allreduce import reference
from ungate_allreduce.screen import EPSILON, KINDS, differences, draw
from ungate_allreduce.variant import Dtype


@pytest.mark.parametrize("dtype", list(Dtype))
@pytest.mark.parametrize("kind", KINDS)
def test_rounding_and_back_keeps_every_value(dtype: Dtype, kind: str) -> None:
    message = draw(kind, 2, 3, 257, dtype, 5)
    for tensor in message.inputs:
        again = reference.bits(reference.values(tensor, dtype), dtype)
        assert differences(again, tensor, dtype) == 0


@pytest.mark.parametrize(("dtype", "bound"), [(Dtype.FLOAT32, 1e-6), (Dtype.FLOAT16, 1e-3), (Dtype.BFLOAT16, 1e-2)])
@pytest.mark.parametrize("world", [2, 3, 8])
@pytest.mark.parametrize("hidden", [1, 64, 257, 4096])
def test_fused_is_as_accurate_as_its_dtype(dtype: Dtype, bound: float, world: int, hidden: int) -> None:
    message = draw("normal", world, 4, hidden, dtype, 1)
    arguments = (message.inputs, message.residual, message.weight, EPSILON, dtype)
    out, residual = reference.fused(*arguments)
    exact, exact_residual = reference.fused_float64(*arguments)
    assert np.linalg.norm(reference.values(out, dtype) - exact) <= bound * np.linalg.norm(exact)
    error = np.linalg.norm(reference.values(residual, dtype) - exact_residual)
    assert error <= bound * np.linalg.norm(exact_residual)


def test_fusing_changes_no_bit() -> None:
    message = draw("normal", 4, 3, 4096, Dtype.BFLOAT16, 2)
    whole = reference.fused(message.inputs, message.residual, message.weight, EPSILON, message.dtype)
    total = reference.allreduce(message.inputs, message.dtype)
    apart = reference.fused((total,), message.residual, message.weight, EPSILON, message.dtype)
    assert (whole[0] == apart[0]).all()
    assert (whole[1] == apart[1]).all()


def test_sum_is_in_rank_order() -> None:
    big, small = np.float32(2.0**24).view(np.uint32), np.float32(1.0).view(np.uint32)
    row = [np.array([value], np.uint32) for value in (big, small, small)]
    assert reference.values(reference.allreduce(row, Dtype.FLOAT32), Dtype.FLOAT32)[0] == 2.0**24
    turned = [row[1], row[2], row[0]]
    assert reference.values(reference.allreduce(turned, Dtype.FLOAT32), Dtype.FLOAT32)[0] == 2.0**24 + 2


def test_negative_zeros_stay_negative() -> None:
    message = draw("negative zeros", 3, 1, 64, Dtype.BFLOAT16, 0)
    assert (reference.allreduce(message.inputs, Dtype.BFLOAT16) == 0x8000).all()


def test_gemma_multiplies_by_one_plus_weight() -> None:
    message = draw("normal", 2, 2, 256, Dtype.FLOAT32, 3)
    shifted = reference.bits(reference.values(message.weight, Dtype.FLOAT32) + np.float32(1.0), Dtype.FLOAT32)
    gemma = reference.fused(message.inputs, message.residual, message.weight, EPSILON, Dtype.FLOAT32, gemma=True)
    plain = reference.fused(message.inputs, message.residual, shifted, EPSILON, Dtype.FLOAT32)
    assert (gemma[0] == plain[0]).all()


def test_e4m3_codes_are_the_nearest_ones() -> None:
    codes = np.arange(0, 0x7F, dtype=np.uint8)
    exact = reference.e4m3_value(codes).astype(np.float64)
    assert (reference.e4m3(exact.astype(np.float32)) == codes).all()
    assert (reference.e4m3(-exact.astype(np.float32)) == (codes | 0x80)).all()
    middle = ((exact[:-1] + exact[1:]) / 2).astype(np.float32)
    assert (reference.e4m3(middle) % 2 == 0).all()
    assert (reference.e4m3(np.nextafter(middle, np.float32(0))) == codes[:-1]).all()
    assert (reference.e4m3(np.nextafter(middle, np.float32(1e9))) == codes[1:]).all()
    assert reference.e4m3(np.array([448, 1e30, np.inf, np.nan], np.float32)).tolist() == [0x7E, 0x7E, 0x7E, 0x7F]


def test_e2m1_codes_are_the_nearest_ones() -> None:
    exact = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    assert reference.e2m1(exact).tolist() == list(range(8))
    assert reference.e2m1(-exact[1:]).tolist() == [8 + code for code in range(1, 8)]
    middle = ((exact[:-1] + exact[1:]) / 2).astype(np.float32)
    assert (reference.e2m1(middle) % 2 == 0).all()
    assert (reference.e2m1(np.nextafter(middle, np.float32(0))) == np.arange(7)).all()
    assert reference.e2m1(np.array([100, np.inf, np.nan, -np.nan], np.float32)).tolist() == [7, 7, 7, 7]


def test_nvfp4_is_close_and_marks_nan_in_the_scale() -> None:
    y = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    packed, scales = reference.nvfp4(y, 64.0)
    codes = np.stack([packed & 15, packed >> 4], axis=2).reshape(4, 64)
    value = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[codes & 7] * np.where(codes & 8, -1, 1)
    back = value * np.repeat(reference.e4m3_value(scales) / 64.0, 16, axis=1)
    assert np.linalg.norm(back - y) < 0.15 * np.linalg.norm(y)
    y[1, 17] = np.nan
    _, scales = reference.nvfp4(y, 64.0)
    assert scales[1, 1] == 0x7F
    assert (scales == 0x7F).sum() == 1


def test_fp8_token_fills_the_range_of_each_row() -> None:
    y = np.random.default_rng(1).standard_normal((3, 128)).astype(np.float32)
    y[2] = 0
    codes, scale = reference.fp8_token(y)
    assert ((codes & 0x7F).max(axis=1)[:2] == 0x7E).all()
    assert (codes[2] == 0).all()
    assert scale[2] == pytest.approx(1 / (448 * 512))


def test_nan_payloads_hold_the_sentinel() -> None:
    message = draw("nan payloads", 2, 4, 256, Dtype.BFLOAT16, 0)
    assert any((tensor.view(np.uint32) == 0xFFFFFFFF).any() for tensor in message.inputs)


def test_differences_finds_one_flipped_bit() -> None:
    tensor = draw("mixed", 2, 2, 64, Dtype.FLOAT16, 4).inputs[0]
    other = tensor.copy()
    other[1, 3] = 0x3C01
    tensor[1, 3] = 0x3C00
    assert differences(tensor, tensor, Dtype.FLOAT16) == 0
    assert differences(other, tensor, Dtype.FLOAT16) == 1
