from __future__ import annotations

import math
from pathlib import Path

import pytest

from ungate_allreduce.errors import Unsupported
from ungate_allreduce.plan import GEN4_X16, GEN5_X16, NCCL_FROM, Choice, Table, crossover, predict, realise, seed
from ungate_allreduce.variant import Dtype, Line, Variant

# Two GPUs on Gen5 x16, peer access off: KiB, microseconds with LL8 and with 16-byte sentinel lines.
MEASURED = ((4, 3.23, 3.57), (8, 3.40, 3.40), (16, 4.42, 3.60), (32, 5.71, 4.48), (64, 7.78, 5.84))


@pytest.mark.parametrize(("kib", "tagged", "sentinel"), MEASURED)
def test_formula_is_within_a_fifth_of_what_was_measured(kib: int, tagged: float, sentinel: float) -> None:
    assert predict(2, kib << 10, Line.LL8, 1, GEN5_X16) == pytest.approx(tagged, rel=0.2)
    assert predict(2, kib << 10, Line.F16, 1, GEN5_X16) == pytest.approx(sentinel, rel=0.2)


def test_two_ranks_never_take_two_shots() -> None:
    assert crossover(2, Line.LL8, GEN5_X16) == math.inf
    assert seed(2, 1 << 20, nccl_from=None).shots == 1


@pytest.mark.parametrize(
    ("world", "line", "kib"), [(4, Line.F16, 59), (4, Line.LL8, 29), (8, Line.F16, 17), (8, Line.LL8, 8)]
)
def test_crossover_is_where_the_two_predictions_meet(world: int, line: Line, kib: int) -> None:
    at = crossover(world, line, GEN5_X16)
    assert at / 1024 == pytest.approx(kib, rel=0.1)
    one, two = (predict(world, int(at), line, shots, GEN5_X16) for shots in (1, 2))
    assert one == pytest.approx(two, rel=1e-3)
    assert crossover(world, line, GEN4_X16) == pytest.approx(at / 2)


def test_seed_is_the_format_that_cannot_take_stale_data() -> None:
    assert seed(4, 4096) == Choice(line=int(Line.LL8), shots=1, us=predict(4, 4096, Line.LL8, 1, GEN5_X16))
    assert seed(8, 64 << 10).shots == 2


def test_seed_keeps_nccl_for_large_messages() -> None:
    assert seed(2, NCCL_FROM).transport == "nccl"
    assert seed(2, NCCL_FROM - 1).transport == "host"
    assert seed(2, NCCL_FROM, nccl_from=None).transport == "host"


def test_table_survives_its_file(tmp_path: Path) -> None:
    table = Table({"gpus": "a"}, {Table.key(2, Dtype.BFLOAT16, "fused", 8192): Choice(threads=256, split=2, us=4.5)})
    path = tmp_path / "table.json"
    path.write_text(table.dump())
    again = Table.read(path, {"gpus": "a"})
    assert again == table
    assert again.dump() == table.dump()
    assert again.choose(2, Dtype.BFLOAT16, "fused", 8000).split == 2
    assert again.choose(2, Dtype.BFLOAT16, "fused", 9000) == seed(2, 9000)
    assert again.choose(2, Dtype.FLOAT16, "fused", 8192) == seed(2, 8192)


def test_table_of_another_machine_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(Table({"gpus": "a"}, {}).dump())
    with pytest.raises(Unsupported, match="ungate-allreduce tune"):
        Table.read(path, {"gpus": "b"})
    path.write_text('{"version": 2}')
    with pytest.raises(Unsupported, match="another version"):
        Table.read(path, {})


@pytest.mark.parametrize(("size", "bucket"), [(1, 1), (2, 1), (3, 2), (4096, 12), (4097, 13), (8192, 13)])
def test_key_names_the_power_of_two_that_holds_the_message(size: int, bucket: int) -> None:
    assert Table.key(4, Dtype.FLOAT32, "plain", size) == f"4/float32/plain/{bucket}"


def test_realise_gives_kernels_that_exist() -> None:
    choice = Choice(line=int(Line.F16), threads=1024, split=64)
    variant = realise(choice, 2, Dtype.BFLOAT16, 3, hidden=128)
    assert isinstance(variant, Variant)
    assert variant.block <= 1024
    assert variant.split == 1
    assert realise(Choice(vec=4), 2, Dtype.FLOAT32, 100).vec == 4
    assert realise(Choice(vec=4, lag=1), 2, Dtype.FLOAT32, 100).lag == 1
    assert realise(Choice(vec=4, lag=1), 16, Dtype.FLOAT32, 100).lag == 0
    with pytest.raises(Unsupported, match="keeps NCCL"):
        realise(Choice(transport="nccl"), 2, Dtype.FLOAT32, 100)
