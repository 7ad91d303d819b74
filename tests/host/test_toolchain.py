from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.host import toolchain


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """What was found is remembered for a process; each test looks for itself."""
    for remembered in (toolchain.find, toolchain.tool, toolchain.codes, toolchain.home):
        remembered.cache_clear()
    yield
    for remembered in (toolchain.find, toolchain.tool, toolchain.codes, toolchain.home):
        remembered.cache_clear()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any toolkit; returns a folder that is all of PATH."""
    monkeypatch.setattr(toolchain, "_usual_places", list)
    monkeypatch.setattr(toolchain, "_wheel_places", list)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


NVCC = """case "$1" in
--version) echo 'Cuda compilation tools, release 13.0, V13.0.88';;
--dryrun) echo '#$ _SPACE_= ' >&2; echo "#$ TOP=$(/usr/bin/dirname "$0")/.." >&2;;
--list-gpu-code) printf 'sm_120\\nsm_90\\nsm_90a\\n';;
esac"""


def test_nothing_is_none_and_the_need_for_it_a_refusal(alone: Path) -> None:
    assert toolchain.tools() == ()
    assert toolchain.codes() is None
    assert toolchain.include_folders() == ()
    with pytest.raises(Refusal, match="NVIDIA's nvcc is not here") as caught:
        toolchain.need("nvcc")
    assert "pip install 'ungate[toolchain]'" in caught.value.next_step
    with pytest.raises(Refusal, match=r"host compiler g\+\+ is not on PATH"):
        toolchain.need("g++")


def test_version_and_codes_are_asked(alone: Path) -> None:
    path = program(alone, "nvcc", NVCC)
    assert toolchain.tools() == (toolchain.Tool("nvcc", path, "13.0.88"),)
    assert toolchain.codes() == ("sm_90", "sm_90a", "sm_120")


def test_a_tool_that_fails_has_no_version(alone: Path) -> None:
    path = program(alone, "nvcc", "exit 1")
    assert toolchain.tool("nvcc") == toolchain.Tool("nvcc", path, None)
    assert toolchain.codes() is None


def test_a_tool_that_hangs_is_given_up(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_DEADLINE_S", 0.2)
    program(alone, "nvcc", "exec /bin/sleep 30")
    assert toolchain.codes() is None


def test_cuda_home_comes_before_path_and_ptxas_from_beside_nvcc(
    alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(alone, "nvcc", NVCC)
    program(alone, "ptxas", "exit 0")
    home = tmp_path / "cuda-13.5"
    monkeypatch.setenv("CUDA_HOME", str(home))
    inside = program(home / "bin", "nvcc", NVCC)
    beside = program(home / "bin", "ptxas", "exit 0")
    (home / "include").mkdir()
    assert toolchain.find("nvcc") == inside
    assert toolchain.find("ptxas") == beside
    assert toolchain.include_folders() == (home / "include",)


def test_the_wheels_beside_ungate_come_first(alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    program(tmp_path / "site-packages/nvidia/cuda_nvcc/bin", "nvcc", NVCC)
    newer = program(tmp_path / "site-packages/nvidia/cu99/bin", "nvcc", NVCC)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    assert toolchain.find("nvcc") == newer


def test_the_host_compiler_is_the_one_on_path() -> None:
    found = toolchain.tool("g++")
    assert found is not None
    assert found.version
    assert int(found.version.split(".")[0]) >= 7


@pytest.mark.toolkit
def test_the_real_nvcc_knows_sm_120() -> None:
    codes = toolchain.codes()
    assert codes is not None
    assert {"sm_90", "sm_120"} <= set(codes)
    assert any((folder / "cuda_runtime.h").exists() for folder in toolchain.include_folders())
    assert {tool.name for tool in toolchain.tools()} >= {"nvcc", "ptxas", "cuobjdump", "nvdisasm"}
