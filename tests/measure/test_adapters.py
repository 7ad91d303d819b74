from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.measure.adapters import Job, adapter, judge, measure, names
from ungate.model import Cell

CELL = Cell(concurrency=2, prompt_tokens=8, output_tokens=4)


def job(folder: Path, *, url: str = "http://127.0.0.1:1", python: str = "/bin/false", requests: int = 3) -> Job:
    return Job(Path(python), url, "tiny", folder / "model", CELL, requests, 0, folder / "result.json")


def document(**more: object) -> dict[str, object]:
    gaps = [[0.1, 0.1, 0.1], [0.2, 0.2, 0.2], [0.1, 0.1, 0.1]]
    lists = {"ttfts": [0.5, 0.5, 0.5], "itls": gaps, "input_lens": [8] * 3, "output_lens": [4] * 3, "errors": [""] * 3}
    return {**lists, "start_times": [10.0, 10.0, 11.0], **more}


def written(folder: Path, content: dict[str, object]) -> Path:
    path = folder / "result.json"
    path.write_text(json.dumps(content))
    return path


def test_both_tools_have_a_file() -> None:
    assert {"vllm-bench", "sglang-bench"} <= set(names())
    with pytest.raises(Refusal, match="no adapter for 'wrk'"):
        adapter("wrk")


def test_a_result_is_summarised_as_our_own_are(tmp_path: Path) -> None:
    rows = adapter("vllm-bench").read(written(tmp_path, document()))
    result = judge("vllm-bench", rows, job(tmp_path), seconds=2.0)
    assert result.completed == 3 and result.valid
    assert result.window_s == pytest.approx(1.8)
    assert result.tokens_per_second == pytest.approx(12 / 1.8)
    assert result.ttft is not None and result.ttft.mean == pytest.approx(0.5)
    assert result.tpot is not None and result.tpot.mean == pytest.approx(0.4 / 3)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"output_lens": [4, 2, 4]}, "2 output tokens counted, asked for 4"),
        ({"errors": ["", "", "Traceback\nConnectionResetError: gone"]}, "ConnectionResetError: gone"),
    ],
)
def test_what_a_tool_books_as_success_is_checked_again(more: dict[str, object], words: str, tmp_path: Path) -> None:
    rows = adapter("vllm-bench").read(written(tmp_path, document(**more)))
    result = judge("vllm-bench", rows, job(tmp_path), seconds=2.0)
    assert result.failed == 1 and result.faults[0][0] == words and not result.valid


def test_a_prompt_length_that_was_missed_is_a_note(tmp_path: Path) -> None:
    rows = adapter("vllm-bench").read(written(tmp_path, document(input_lens=[8, 8, 10])))
    result = judge("vllm-bench", rows, job(tmp_path), seconds=2.0)
    assert result.failed == 0 and result.notes == ("prompts of 8 to 10 tokens, asked for 8",)


def test_requests_that_a_tool_does_not_tell_of_have_failed(tmp_path: Path) -> None:
    rows = adapter("vllm-bench").read(written(tmp_path, document()))
    result = judge("vllm-bench", rows, job(tmp_path, requests=5), seconds=2.0)
    assert result.failed == 2 and "tells nothing" in result.faults[0][0]


def test_without_start_times_there_is_no_throughput(tmp_path: Path) -> None:
    """SGLang's tool appends one line a run and keeps no start times."""
    path = tmp_path / "result.json"
    lines = [document(start_times=[], output_lens=[1, 1, 1]), document(start_times=[])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = adapter("sglang-bench").read(path)
    result = judge("sglang-bench", rows, job(tmp_path), seconds=2.0)
    assert result.completed == 3
    assert result.tokens_per_second is None and result.ttft is not None


def test_tokens_that_a_tool_only_assumes_are_not_believed(tmp_path: Path) -> None:
    """Without usage SGLang's tool books what it asked for: a stream that broke off after two of four reads as whole."""
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document(start_times=[], itls=[[0.1] * 3, [0.1], [0.1] * 3])) + "\n")
    result = judge("sglang-bench", adapter("sglang-bench").read(path), job(tmp_path), seconds=2.0)
    assert result.failed == 1 and result.faults[0][0] == "2 output tokens counted, asked for 4"


def test_a_changed_format_is_refused(tmp_path: Path) -> None:
    content = document()
    del content["itls"]
    with pytest.raises(Refusal, match="has no itls"):
        adapter("vllm-bench").read(written(tmp_path, content))


def test_a_tool_that_writes_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"vllm-bench wrote no result \(exit 1\)"):
        measure("vllm-bench", job(tmp_path))


@pytest.mark.vllm
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("fault", "failed"), [("none", 0), ("error-event", 4), ("early-end", 4)])
def test_the_real_tool_is_found_out(fake: str, fault: str, failed: int, tmp_path: Path) -> None:
    """vLLM's own client books streams that were cut short as successes; their lengths give them away. Budget 5 min."""
    folder = Path(os.environ["UNGATE_VLLM"])
    cell = Cell(concurrency=2, prompt_tokens=8, output_tokens=8)
    python = folder / "venv" / "bin" / "python"
    task = Job(python, f"{fake}/{fault}/3", "fake", folder / "model", cell, 12, 0, tmp_path / "result.json")
    result = measure("vllm-bench", task, deadline_s=600)
    told = json.loads((tmp_path / "result.json").read_text())
    assert told["completed"] == 12, "the tool itself notices nothing"
    assert result.failed == failed, result.faults


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif("UNGATE_SGLANG" not in os.environ, reason="UNGATE_SGLANG names no SGLang environment")
@pytest.mark.parametrize(("fault", "failed"), [("none", 0), ("error-event", 4), ("early-end", 4)])
def test_the_other_real_tool_is_found_out(
    fake: str, fault: str, failed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SGLang's, in the environment of ``tests/launch/sglang_cpu/install.py``. Budget 5 min."""
    folder = Path(os.environ["UNGATE_SGLANG"])
    monkeypatch.setenv("PYTHONPATH", str(folder / "stub"))
    cell = Cell(concurrency=2, prompt_tokens=8, output_tokens=8)
    model = Path(os.environ["UNGATE_VLLM"]) / "model"
    python = folder / "venv" / "bin" / "python"
    task = Job(python, f"{fake}/{fault}/3", "fake", model, cell, 12, 0, tmp_path / "result.json")
    result = measure("sglang-bench", task, deadline_s=600)
    assert result.failed == failed, result.faults
