from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ungate_allreduce import __main__ as cli
from ungate_allreduce import ahead
from ungate_allreduce.plan import Choice, Table, realise
from ungate_allreduce.tuner import choices, paused
from ungate_allreduce.variant import Dtype


@pytest.mark.usefixtures("nvrtc")
def test_build_fills_the_cache(kernel_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["build", "--hidden", "256", "--arch", "90", "--max-bytes", "512"]
    assert cli.main(arguments) == 0
    assert capsys.readouterr().err.count("sm_90 LL8 1-shot") == 2
    before = set(kernel_cache.iterdir())
    assert cli.main(arguments) == 0
    assert set(kernel_cache.iterdir()) == before


@pytest.mark.usefixtures("nvrtc")
def test_build_for_an_unknown_architecture_says_which_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["build", "--hidden", "256", "--arch", "52", "--max-bytes", "512"]) == 3
    assert "does not know sm_52" in capsys.readouterr().err


def test_sizes_double_up_to_the_largest_message() -> None:
    assert cli.sizes(4096, Dtype.BFLOAT16, 64 << 10) == [1, 2, 4, 8]
    assert cli.sizes(4096, Dtype.FLOAT32, 64 << 10) == [1, 2, 4]


def test_tune_takes_nccls_best_setting_and_writes_the_table_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[dict[str, float]] = []
    times = iter([{"fused 8192": 12.0}, {"fused 8192": 11.0}, None])
    table = Table({"gpus": "a"}, {"2/bfloat16/fused/13": Choice(us=4.0), "2/bfloat16/fused/20": Choice("nccl")})

    def ranks(options: Any, job: str, env: dict[str, str], known: dict[str, float]) -> Any:
        if job == "nccl":
            return next(times)
        given.append(known)
        return {"table": table.dump()}

    monkeypatch.setattr(cli, "_ranks", ranks)
    monkeypatch.setattr(cli, "_compile", lambda options: 0)
    out = tmp_path / "table.json"
    assert cli.main(["tune", "--hidden", "4096", "--out", str(out)]) == 0
    assert given == [{"fused 8192": 11.0}]
    assert Table.read(out, {"gpus": "a"}) == table
    assert json.loads(out.read_text())["version"] == 1
    assert list(tmp_path.iterdir()) == [out]
    assert "NCCL kept for 1" in capsys.readouterr().err


def test_tune_that_fails_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_ranks", lambda *arguments: None)
    monkeypatch.setattr(cli, "_compile", lambda options: 0)
    assert cli.main(["tune", "--hidden", "4096", "--out", str(tmp_path / "table.json")]) == 3
    assert not list(tmp_path.iterdir())


def test_every_candidate_of_a_tuning_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    options = argparse.Namespace(gpus=2, hidden=1024, dtype="bfloat16", max_bytes=8192)
    compiled = []
    fake = types.SimpleNamespace(
        cuda=types.SimpleNamespace(get_device_capability=lambda index: (12, 0), device_count=lambda: 2)
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(ahead, "compile_kernel", lambda *job: compiled.append(job))
    monkeypatch.setattr(ahead, "ProcessPoolExecutor", lambda *given, **options: ThreadPoolExecutor(2))
    assert cli._compile(options) == len(compiled)
    targets = {(file, target) for file, target, _ in compiled}
    assert targets == {("primitives.cu", "120"), ("replay.cu", "120"), ("allreduce.cu", "120")}
    wanted = {
        tuple(sorted(realise(one, 2, case.dtype, case.rows, hidden=case.hidden).defines(120).items()))
        for case in cli._cases(options)
        for choice in choices(2, case)
        for one in (choice, *paused(choice))
    }
    assert wanted == {tuple(sorted(defines.items())) for file, _, defines in compiled if file == "allreduce.cu"}


@pytest.mark.parametrize(
    ("found", "asked", "following"),
    [(0, 2, "allreduce build"), (1, 2, "allreduce build"), (1, 1, "allreduce build"), (2, 4, "tune --gpus 2")],
)
def test_tune_on_too_few_gpus_says_so_before_it_starts_a_rank(
    found: int, asked: int, following: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = types.SimpleNamespace(cuda=types.SimpleNamespace(device_count=lambda: found))
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(cli, "_ranks", lambda *given: pytest.fail("a rank was started"))
    assert cli.main(["tune", "--hidden", "4096", "--gpus", str(asked), "--out", "table.json"]) == 3
    said = capsys.readouterr().err
    assert f"this machine has {found}" in said
    assert following in said


def test_a_rank_past_its_deadline_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/sleep")
    options = argparse.Namespace(gpus=1, hidden=1, dtype="float32", max_bytes=8, deadline=0.3)
    monkeypatch.setattr(subprocess, "Popen", _sleeping(subprocess.Popen))
    begin = time.monotonic()
    assert cli._ranks(options, "tune", {}, {}) is None
    assert time.monotonic() - begin < 10


def test_a_rank_that_fails_ends_the_others_long_before_their_deadline(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/sleep")
    monkeypatch.setattr(cli, "GRACE_S", 0.2)
    options = argparse.Namespace(gpus=3, hidden=1, dtype="float32", max_bytes=8, deadline=50.0)
    monkeypatch.setattr(subprocess, "Popen", _sleeping(subprocess.Popen, fails=1))
    begin = time.monotonic()
    assert cli._ranks(options, "nccl", {}, {}) is None
    assert time.monotonic() - begin < 10
    said = capsys.readouterr().err
    assert "Rank 1 of the job 'nccl' ended with exit code 1." in said
    assert "Rank 2 of the job 'nccl' ended with exit code -9." in said


def _sleeping(popen: Any, fails: int = -1) -> Any:
    def start(argv: list[str], **options: Any) -> Any:
        wrong = argv[-2:] == ["--rank", str(fails)]
        return popen([argv[0], "no time" if wrong else "60"], stderr=subprocess.DEVNULL, **options)

    return start
