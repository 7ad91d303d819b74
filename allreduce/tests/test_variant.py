from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ungate_allreduce.compile import sources
from ungate_allreduce.errors import Unsupported
from ungate_allreduce.variant import Dtype, Line, Quant, Variant, fitting

BASE = Variant(2, Dtype.BFLOAT16, Line.LL8, 1, 4096, 512)


@pytest.mark.parametrize(
    ("line", "hidden", "lines"),
    [(Line.LL8, 4096, 1024), (Line.F16, 4096, 512), (Line.F12, 4096, 683), (Line.LL8, 4095, 1024), (Line.F16, 1, 1)],
)
def test_a_row_is_cut_into_whole_lines(line: Line, hidden: int, lines: int) -> None:
    variant = Variant(2, Dtype.BFLOAT16, line, 1, hidden, 128, aligned=hidden % 8 == 0)
    assert variant.row_lines == lines
    assert variant.lines(3) == 3 * lines


@pytest.mark.parametrize("line", list(Line))
@pytest.mark.parametrize("split", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("hidden", [64, 2050, 4096, 8200])
def test_parts_cover_the_row_in_whole_leaves(line: Line, split: int, hidden: int) -> None:
    variant = Variant(2, Dtype.BFLOAT16, line, 1, hidden, 256, split)
    assert variant.part_words % 64 == 0
    assert variant.part_words % int(line) == 0
    assert variant.part_words * split >= variant.row_words
    assert variant.tile_lines * split >= variant.row_lines


def test_identity_is_what_must_agree_and_nothing_else() -> None:
    same = [replace(BASE, threads=256), replace(BASE, split=4), replace(BASE, quant=BASE.quant)]
    assert {variant.identity() for variant in same} == {BASE.identity()}
    other = [
        replace(BASE, dtype=Dtype.FLOAT16),
        replace(BASE, line=Line.F16),
        replace(BASE, hidden=4104),
        replace(BASE, world=3),
        replace(BASE, gemma=True),
        replace(BASE, quant=Quant.FP8_STATIC),
        replace(BASE, world=4, shots=2),
    ]
    assert len({variant.identity() for variant in [BASE, *other]}) == len(other) + 1


def test_two_shot_ranks_must_cut_alike() -> None:
    two = replace(BASE, world=4, shots=2)
    assert two.identity() != replace(two, split=2).identity()


@pytest.mark.parametrize(
    "change",
    [
        {"world": 17},
        {"world": 1, "shots": 2},
        {"shots": 3},
        {"threads": 100},
        {"threads": 1024},
        {"hidden": 0, "split": 2},
        {"quant": Quant.NVFP4, "hidden": 4104},
        {"line": Line.F12, "hidden": 32768},
        {"lag": 1, "world": 4, "shots": 2},
    ],
)
def test_impossible_kernels_are_refused_in_words(change: dict[str, object]) -> None:
    with pytest.raises(Unsupported) as caught:
        replace(BASE, **change)  # type: ignore[arg-type]
    assert str(caught.value).endswith(".")


def test_macros_are_all_the_kernel_asks_for() -> None:
    text = "".join(body for name, body in sources().items() if name not in ("primitives.cu", "replay.cu"))
    fused, plain = BASE.defines(90), replace(BASE, hidden=0).defines(90)
    for name in {**fused, **plain}:
        assert re.search(rf"\b{name}\b", text), f"{name} is passed and never used"
    assert fused["PDL"] == 1
    assert BASE.defines(89)["PDL"] == 0


def test_fitting_keeps_lines_in_registers() -> None:
    wide = Variant(16, Dtype.BFLOAT16, Line.LL8, 1, 16384, 256)
    assert fitting(wide).lines_a_thread * int(wide.line) <= 8
    assert fitting(BASE) == BASE
    # 512 threads share the registers that 128 have: these spilled with four and with two lines a thread.
    for world, lines in ((4, 2), (8, 1)):
        many = Variant(world, Dtype.BFLOAT16, Line.LL8, 1, 8192, 512)
        assert fitting(many).lines_a_thread == lines
        assert fitting(replace(many, threads=128)).lines_a_thread == 8
    assert fitting(replace(BASE, hidden=0)) == replace(BASE, hidden=0)
