from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ungate.build import linking
from ungate.host import toolchain


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolkit without a stub, on a machine without a driver."""
    monkeypatch.setattr(toolchain, "home", lambda: tmp_path / "cuda")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    return tmp_path / "cuda"


def test_without_a_toolkit_nothing_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "home", lambda: None)
    assert linking.variables({}, tmp_path) == {}
    assert list(tmp_path.iterdir()) == []


def test_the_toolkit_is_named_unless_the_user_did(home: Path, tmp_path: Path) -> None:
    assert linking.variables({}, tmp_path)["CUDA_HOME"] == str(home)
    assert "CUDA_HOME" not in linking.variables({"CUDA_HOME": "/mine"}, tmp_path)
    assert "CUDA_HOME" not in linking.variables({"CUDA_PATH": "/mine"}, tmp_path)


def test_a_stub_of_the_toolkit_is_enough(home: Path, tmp_path: Path) -> None:
    (home / "lib64/stubs").mkdir(parents=True)
    (home / "lib64/stubs/libcuda.so").touch()
    assert "LIBRARY_PATH" not in linking.variables({}, tmp_path)


def test_a_module_links_with_the_stub_and_asks_for_the_driver(home: Path, tmp_path: Path) -> None:
    added = linking.variables({"LIBRARY_PATH": "/elsewhere"}, tmp_path)
    first, second = added["LIBRARY_PATH"].split(":")
    assert second == "/elsewhere"
    assert linking.variables({}, tmp_path)["LIBRARY_PATH"] == first  # made once
    command = ["g++", "-shared", "-Wl,--no-as-needed", "-x", "c", "/dev/null", "-lcuda", "-o", str(tmp_path / "m.so")]
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LIBRARY_PATH": first}
    subprocess.run(command, check=True, timeout=60, env=environment)
    assert b"libcuda.so.1" in (tmp_path / "m.so").read_bytes()
