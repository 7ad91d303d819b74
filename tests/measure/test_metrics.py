from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ungate.measure import load
from ungate.measure.metrics import samples, write_raw
from ungate.model import Cell

CELL = Cell(2, 8, 4)


def test_every_metric_has_a_unit_and_a_value(fake: str) -> None:
    result = load.run(f"{fake}/none/1", "fake", CELL, requests=6)
    found = {sample.metric: sample for sample in samples(result, arm="baseline", start=2)}
    assert found["output_tokens_per_second"].unit == "token/s"
    assert found["ttft_p99"].unit == "s"
    assert found["failed_share"].value == 0.0
    assert {"tpot_mean", "itl_p50", "e2e_p90", "zero_gap_share", "requests_per_second"} <= set(found)
    assert all(sample.cell == CELL and sample.start == 2 for sample in found.values())
    # On a busy machine a figure may be withheld, and then says why.
    assert [sample.metric for sample in found.values() if sample.value is None and not sample.note] == []


def test_a_missing_value_is_none_and_says_why(fake: str) -> None:
    result = load.run(f"{fake}/http-500/1", "fake", CELL, requests=4, warmup=0)
    found = {sample.metric: sample for sample in samples(result, arm="candidate", start=0)}
    assert found["output_tokens_per_second"].value is None
    assert found["ttft_mean"].value is None
    assert found["failed_share"].value == 1.0
    assert found["ttft_mean"].note.startswith("no request succeeded")


def test_raw_times_are_kept_and_can_be_read_back(fake: str, tmp_path: Path) -> None:
    result = load.run(f"{fake}/http-500/3", "fake", CELL, requests=6, warmup=0)
    path = write_raw(result, tmp_path / "raw" / "cell.npz")
    with np.load(path) as raw:
        assert str(raw["cell"]) == "c2-i8-o4"
        assert raw["offsets"].tolist()[-1] == len(raw["times"]) == sum(len(o.times) for o in result.outcomes)
        assert (raw["tokens"] == -1).sum() == 2 and (raw["fault"] != "").sum() == 2
        first, last = raw["offsets"][:2]
        mine = result.outcomes[0].times
        assert np.diff(raw["times"][first:last]) == pytest.approx(np.diff(mine))
    assert [entry.name for entry in path.parent.iterdir()] == ["cell.npz"]
