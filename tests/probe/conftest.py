"""What the tests of this room share: an interpreter with PyTorch, and candidates with faults."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ungate.host.environment import Environment, resolve

PYTHON = os.environ.get("UNGATE_TEST_TORCH_PYTHON", "") or (sys.executable if find_spec("torch") else "")
FAULTY = Path(__file__).parent / "faulty"


@pytest.fixture(scope="session")
def serving() -> Environment:
    """The one that runs the tests where it has PyTorch, else the one that UNGATE_TEST_TORCH_PYTHON names."""
    if not PYTHON:
        pytest.skip("no PyTorch here, and UNGATE_TEST_TORCH_PYTHON names none")
    return resolve(None, Path(PYTHON))
