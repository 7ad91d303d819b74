"""The whole loop on the lab: it completes, it decides, and an interrupt anywhere leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from ungate.record import Ledger

DEMO = [sys.executable, "-m", "ungate", "demo"]


def _environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "UNGATE_STATE_DIR": str(tmp_path / "state"), "UNGATE_CACHE_DIR": str(tmp_path / "cache")}


def _servers(tmp_path: Path) -> list[str]:
    """Processes of a lab server that was started from this test's folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(tmp_path) in process.environ().get("PYTHONPATH", ""):
                found.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
        except psutil.Error:
            continue
    return found


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path) -> None:
    environment = {**_environment(tmp_path), "CXX": "no-such-compiler"}
    done = subprocess.run(DEMO, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 3
    assert "no-such-compiler" in done.stderr and "install" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_loop_completes_and_decides(tmp_path: Path) -> None:
    """Budget: 120 s on 2 quiet cores."""
    segments = set(Path("/dev/shm").iterdir())
    done = subprocess.run([*DEMO, "--json"], capture_output=True, text=True, timeout=380, env=_environment(tmp_path))
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert {verdict["decision"] for verdict in told["verdicts"]} <= {"keep", "revert", "inconclusive"}
    assert len(told["verdicts"]) == 2
    assert {guard["name"]: guard["holds"] for guard in told["guards"]} == {
        "the candidate starts": True,
        "outputs are right": True,
        "the opened path runs in the candidate only": True,
        "the baseline was as warm": True,
        "the baseline's JIT caches were as full": True,
    }
    assert [artifact["hollow"] for artifact in told["artifacts"]] == [0]
    hollow = [finding for finding in told["findings"] if finding["rule"] == "hollow"]
    assert any("lab_kernel_lamport_one_shot_allreduce_norm" in finding["what"] for finding in hollow)
    assert {task["status"] for task in told["tasks"]} == {"completed"}
    assert Path(told["report"]).read_text(encoding="utf-8").count("<svg") >= 3
    (row,) = Ledger(tmp_path / "state" / "ledger.sqlite").runs()
    assert row.status == "completed" and len(row.verdicts) == 2
    assert len(Ledger(tmp_path / "state" / "ledger.sqlite").samples_of(row.id)) == len(told["samples"]) > 0
    assert _servers(tmp_path) == [] and set(Path("/dev/shm").iterdir()) <= segments


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seconds", [1.5, 3.0, 6.0, 12.0, 25.0])
def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, seconds: float) -> None:
    """Budget: a minute each; the moments fall into reading, building, launching and measuring."""
    segments = set(Path("/dev/shm").iterdir())
    # Byte code is written first, so that the earliest moment does not fall into the interpreter's own start.
    subprocess.run([*DEMO, "--help"], capture_output=True, timeout=60, env=_environment(tmp_path))
    process = subprocess.Popen(
        DEMO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=_environment(tmp_path),
        start_new_session=True,
    )
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the foreground group
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "Interrupted" in err
    assert _servers(tmp_path) == [] and set(Path("/dev/shm").iterdir()) <= segments
    ledger = tmp_path / "state" / "ledger.sqlite"
    if ledger.exists():
        assert {row.status for row in Ledger(ledger).runs()} <= {"interrupted"}
