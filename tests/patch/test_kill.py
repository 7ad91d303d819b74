"""Killed at every step of push, pop and recover: each environment is as before or as after, never between."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: the test is about order, not about the device."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shared)) if shared.is_dir() else tmp_path
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_sigkill_at_every_step(memory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.patch.killer", str(memory)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert set(found["points"]) == {"push", "pop", "second push", "second pop", "intruder", "recover"}
    assert sum(found["points"].values()) >= 500, found["points"]
