from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import ungate.lab
from ungate.launch import ports

LAB = Path(ungate.lab.__file__).parent


@pytest.fixture
def port() -> int:
    return ports.free_port()


@pytest.fixture
def lab_environment() -> dict[str, str]:
    return {"PYTHONPATH": f"{LAB / 'engine'}:{LAB / 'kernels'}"}


@pytest.fixture
def lab() -> tuple[str, ...]:
    """A lab server of two ranks with the blocking allreduce."""
    return (sys.executable, "-m", "labengine.launch", "--model", "lab-dense", "--tp", "2")


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """A server that is a few lines of Python; ``port`` is its last argument."""

    def make(body: str) -> tuple[str, ...]:
        path = tmp_path / "server.py"
        path.write_text("import sys, time\nport = int(sys.argv[-1])\n" + textwrap.dedent(body))
        return (sys.executable, "-u", str(path), "--port", "0")

    return make
