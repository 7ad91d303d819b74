"""The probe on real PyTorch and gloo, with candidates that are right and candidates with every kind of fault."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.probe.conftest import FAULTY

from ungate.cli.main import main
from ungate.errors import Refusal
from ungate.host.environment import Environment
from ungate.host.progress import silent
from ungate.pipeline import probing
from ungate.pipeline.probing import Probe
from ungate.probe.records import Measured, Request, State

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

SIZES = (4096, 16384)
WRONG = {
    "wrong-rank": "on rank 1, 20 of",
    "stale": "the sum of an earlier call",
    "cached": "the sum of an earlier call",
    "unwritten": "NaN",
    "own-input": "the rank's own input",
    "differs": "The ranks hold different bits",
    "wrong-size": "Wrong at 16384 bytes, so it is used at no size.",
    "late-wrong": "While it was timed",
}
OTHERS = ("crashes", "fails-to-open", "leaves", "prints")


def run(serving: Environment, *names: str, timeout_s: float = 120.0, dtype: str = "bfloat16") -> Probe:
    request = Request(SIZES, dtype, 2, "cpu", names, timeout_s=timeout_s, rounds=3, replays=3, extra=str(FAULTY))
    return probing.probe(serving, request, silent)


def of(found: Probe, name: str) -> Measured:
    return next(each for each in found.measured if each.entrant.name == name)


def states(measured: Measured) -> list[State]:
    return [cell.state for cell in measured.cells]


def left_behind() -> set[str]:
    files = [*Path("/dev/shm").glob("*ungate*"), *Path("/tmp").glob("ungate-probe-*")]
    return {*map(str, files), *(str(process.pid) for process in psutil.process_iter() if _is_rank(process))}


def _is_rank(process: psutil.Process) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return any(word.startswith("ungate.probe.serving") for word in words)  # a zombie has no words


@pytest.fixture(scope="module")
def found(serving: Environment) -> Probe:
    """One probe of the baseline beside every fault but the hang."""
    before = left_behind()
    done = run(serving, "cpu-shm", *WRONG, *OTHERS)
    assert left_behind() - before == set()
    return done


@pytest.mark.parametrize("name", ["gloo", "cpu-shm"])
def test_what_is_right_is_verified_and_timed_beside_every_fault(found: Probe, name: str) -> None:
    measured = of(found, name)
    assert (measured.state, measured.reason, measured.log) == (State.OK, "", ())
    for cell in measured.cells:
        assert cell.state is State.OK and len(cell.us) == 3 and min(cell.us) > 0
        assert cell.error is not None and 0 < cell.error <= 1
        assert cell.checks >= 2 * 2 + 3  # of two shapes at least, and once a round


@pytest.mark.parametrize("name", WRONG)
def test_wrong_sums_disqualify_whatever_the_speed(found: Probe, name: str) -> None:
    wrong = of(found, name)
    assert wrong.state is State.WRONG
    assert WRONG[name] in wrong.reason
    assert not {choice and choice.use for _, choice in found.policy} & WRONG.keys()
    told = next(each for each in probing.document(found)["candidates"] if each["name"] == name)  # type: ignore[attr-defined]
    assert [size["us"] is None for size in told["sizes"]] == [size["state"] != "ok" for size in told["sizes"]]


def test_wrong_for_one_size_only_is_told_for_that_size(found: Probe) -> None:
    assert states(of(found, "wrong-size")) == [State.OK, State.WRONG]


def test_a_rank_that_crashes_is_told_with_its_last_words(found: Probe) -> None:
    crashed = of(found, "crashes")
    assert crashed.state is State.CRASHED
    assert "Rank 1 was ended by signal 11" in crashed.reason
    assert any("the last words of rank 1" in line for line in crashed.log)
    assert states(crashed) == [State.CRASHED, State.ENDED]


def test_an_error_while_it_is_opened_is_told_in_its_own_words(found: Probe) -> None:
    failed = of(found, "fails-to-open")
    assert failed.state is State.FAILED
    assert "Rank 1 failed while opening: RuntimeError: No supported CUDA architectures found" in failed.reason
    assert states(failed) == [State.ENDED, State.ENDED]
    assert all(cell.us == () and cell.error is None for cell in failed.cells)


def test_a_process_and_a_file_that_it_leaves_are_ended_and_removed(found: Probe) -> None:
    measured = of(found, "leaves")
    assert measured.state is State.OK
    assert any("process" in note for note in measured.notes)
    assert any("/dev/shm" in note and "removed" in note for note in measured.notes)
    assert not [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == ["sleep", "3599"]]


def test_one_that_prints_a_lot_is_not_held_up(found: Probe) -> None:
    assert states(of(found, "prints")) == [State.OK, State.OK]


def test_the_document_is_strict_json(found: Probe) -> None:
    told = json.loads(json.dumps(probing.document(found), allow_nan=False))
    assert [row["size"] for row in told["policy"]] == list(SIZES)
    assert {each["state"] for each in told["candidates"]} == {"ok", "wrong", "crashed", "failed"}


def test_a_rank_that_hangs_is_ended_at_its_deadline_and_the_rest_goes_on(serving: Environment) -> None:
    before = left_behind()
    found = run(serving, "hangs", timeout_s=25.0)
    assert left_behind() - before == set()
    hung = of(found, "hangs")
    assert hung.state is State.HUNG
    assert "hung within 25 s while checking 4096 bytes" in hung.reason
    assert states(hung) == [State.HUNG, State.ENDED]
    assert states(of(found, "gloo")) == [State.OK, State.OK]
    assert {choice and choice.use for _, choice in found.policy} == {"gloo"}


def test_an_interrupt_leaves_nothing_behind(serving: Environment, tmp_path: Path) -> None:
    before = left_behind()
    words = ["probe", "allreduce", "--python", str(serving.python), "--device", "cpu", "--rounds", "100", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ungate", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        end = time.monotonic() + 120
        while not any(map(_is_rank, psutil.Process(process.pid).children())) and time.monotonic() < end:
            time.sleep(0.1)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert json.loads(out)["exit"] == 130 and "Traceback" not in err
    assert left_behind() - before == set()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_other_dtypes(serving: Environment, dtype: str) -> None:
    found = run(serving, "cpu-shm", dtype=dtype)
    assert [each.state for each in found.measured] == [State.OK, State.OK]


def test_the_command_prints_the_document_and_keeps_it(
    serving: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "policy.json"
    words = ["probe", "allreduce", "--python", str(serving.python), "--sizes", "4K", "--rounds", "2", "--device", "cpu"]
    assert main([*words, "--candidate", "cpu-shm", "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == json.loads(out.read_text())
    assert (told["format"], told["kind"], told["world"], told["device"]) == (1, "allreduce-probe", 2, "cpu")
    assert told["fingerprint"]["torch"] and told["fingerprint"]["gpus"] == []
    assert [row["size"] for row in told["policy"]] == [4096]
    assert told["policy"][0]["use"] in ("gloo", "cpu-shm")
    assert {each["name"] for each in told["candidates"]} == {"gloo", "cpu-shm"}
    assert list(tmp_path.iterdir()) == [out]

    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "us a call" in shown and "cpu-shm" in shown
    assert "flashinfer-oneshot" in shown and "It takes a GPU for each of 2 ranks" in shown


def test_where_nothing_can_run_every_reason_is_told(serving: Environment) -> None:
    with pytest.raises(Refusal, match="vllm-custom: It takes a GPU for each of 64 ranks") as refused:
        probing.probe(serving, Request(SIZES, world=64, device="cuda"), silent)
    assert refused.value.next_step


def test_a_name_that_is_not_there(serving: Environment) -> None:
    with pytest.raises(Refusal, match="Did you mean gloo"):
        run(serving, "glo")
