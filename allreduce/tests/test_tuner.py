from __future__ import annotations

import pytest

from ungate_allreduce.measure import Primitives
from ungate_allreduce.plan import Choice, realise
from ungate_allreduce.replay import MIX, mix
from ungate_allreduce.trial import matrix, rows_of
from ungate_allreduce.tuner import Case, Measured, choices, decide
from ungate_allreduce.variant import Dtype, Line

CASE = Case(Dtype.BFLOAT16, 2, 4096)
FAST, SLOW = Choice(threads=256), Choice(threads=512)


def test_the_fastest_checked_candidate_wins() -> None:
    measured = [Measured(CASE, SLOW, 5.0), Measured(CASE, FAST, 4.0)]
    assert decide(CASE, measured, 12.0) == Choice(threads=256, us=4.0)
    assert decide(CASE, measured, None) == Choice(threads=256, us=4.0)


def test_a_wrong_candidate_never_wins_however_fast() -> None:
    measured = [Measured(CASE, SLOW, 5.0), Measured(CASE, FAST, None, "3 wrong elements")]
    assert decide(CASE, measured, 12.0).threads == 512
    assert decide(CASE, measured[1:], 12.0) == Choice(transport="nccl", us=12.0)


@pytest.mark.parametrize(("nccl", "transport"), [(4.0, "nccl"), (4.1, "nccl"), (4.2, "host"), (3.0, "nccl")])
def test_nccl_is_kept_unless_clearly_slower(nccl: float, transport: str) -> None:
    assert decide(CASE, [Measured(CASE, FAST, 4.0)], nccl).transport == transport


@pytest.mark.parametrize("world", [2, 4, 8])
@pytest.mark.parametrize(
    "case", [Case(Dtype.BFLOAT16, 1, 4096), Case(Dtype.BFLOAT16, 32, 8192), Case(Dtype.FLOAT32, 5000)]
)
def test_every_candidate_is_a_kernel(world: int, case: Case) -> None:
    found = choices(world, case)
    assert len(found) == len(set(found)) > 3
    assert {choice.shots for choice in found} == ({1, 2} if world >= 4 else {1})
    for choice in found:
        variant = realise(choice, world, case.dtype, case.rows, hidden=case.hidden)
        assert variant.tiles(case.rows) >= 1


def test_tear_tested_format_only_on_request() -> None:
    assert {choice.line for choice in choices(2, CASE)} == {int(Line.LL8), int(Line.F16)}
    assert int(Line.F12) in {choice.line for choice in choices(2, CASE, tuple(Line))}


def test_floor_is_the_formula_with_measured_parts() -> None:
    parts = Primitives(0.7, 0.15, 1.25, 3.5, 0.6, 50.0, 50.0, {}, {})
    start = 0.7 + 0.15 + (1.75 - 1.25) + 1.5 * 1.25
    assert parts.formula(2, 50_000, Line.F16, 1) == pytest.approx(start + 1.0 + 1.0)
    assert parts.formula(4, 50_000, Line.LL8, 2) == pytest.approx(start + 1.75 + 2.0 + 2.0 * 1.5)
    assert parts.ready_floor(2, 50_000, Line.F16, 1) == pytest.approx(0.7 + 0.15 + 1.25 + 1.0)
    assert parts.ready_floor(2, 50_000, Line.F16, 1) < parts.formula(2, 50_000, Line.F16, 1)


def test_endurance_mix_covers_both_formats_and_from_four_ranks_two_shots() -> None:
    assert {shape.line for shape in MIX} == {Line.LL8, Line.F16}
    assert {shape.shots for shape in mix(2)} == {1}
    assert {(shape.line, shape.shots) for shape in mix(4)} == {
        (line, n) for line in (Line.LL8, Line.F16) for n in (1, 2)
    }
    for shape in mix(4):
        assert shape.variant(4).lines(shape.rows) > 0
        assert shape.words > 0


def test_matrix_covers_worlds_dtypes_formats_and_shots() -> None:
    seen = {(v.world, v.dtype, v.line, v.shots, bool(v.hidden)) for v, _ in matrix((2, 4))}
    for world in (2, 4):
        for dtype in Dtype:
            for line in Line:
                for shots in (1, 2) if world == 4 else (1,):
                    assert (world, dtype, line, shots, True) in seen
                    assert (world, dtype, line, shots, False) in seen
    assert rows_of(4096, 48 << 10) == (1, 3, 12)
