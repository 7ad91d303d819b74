from __future__ import annotations

from ungate.measure.prompts import TOKEN_RANGE, prompt, stream_seed
from ungate.model import Cell


def test_length_range_and_repeatability() -> None:
    tokens = prompt(7, 3, 64)
    assert len(tokens) == 64
    assert all(TOKEN_RANGE[0] <= token < TOKEN_RANGE[1] for token in tokens)
    assert tokens == prompt(7, 3, 64)
    assert prompt(7, 3, 0) == []


def test_no_two_prompts_share_a_prefix() -> None:
    firsts = [prompt(7, index, 16)[0] for index in range(200)]
    assert len(set(firsts)) == 200
    heads = {tuple(prompt(7, index, 16)[:4]) for index in range(2000)}
    assert len(heads) == 2000


def test_warm_up_and_measurement_have_different_prompts() -> None:
    cell = Cell(4, 64, 32)
    assert stream_seed(cell, "warm-up", 0) != stream_seed(cell, "measure", 0)
    assert stream_seed(cell, "measure", 0) != stream_seed(cell, "measure", 1)
    assert stream_seed(cell, "measure", 0) != stream_seed(Cell(8, 64, 32), "measure", 0)
