"""The main job on the real packages: the story's gates, from the flag to a verified overlay."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ungate.host import packages

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(600)]

FILES = {
    "sglang/srt/server_args.py",
    "sglang/srt/layers/communicator.py",
    "flashinfer/jit/comm.py",
    "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh",
}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNGATE_STATE_DIR", str(folder / "state"))
        yield folder


@pytest.fixture(scope="module")
def told(story_site: Path, state: Path) -> dict[str, Any]:
    """The document of ``ungate run flashinfer-allreduce-fusion --until patch``."""
    command = [sys.executable, "-m", "ungate", "run", "flashinfer-allreduce-fusion", "--site", str(story_site)]
    done = subprocess.run(
        [*command, "--target", "sm_120", "--until", "patch", "--json"], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _hops(told: dict[str, Any], part: str = "hops") -> list[dict[str, Any]]:
    hops: list[dict[str, Any]] = told["chain"][part]
    return hops


def test_the_chain_goes_from_the_flag_to_the_kernel(told: dict[str, Any]) -> None:
    order = [
        "sglang/srt/server_args.py",
        "sglang/srt/layers/communicator.py",
        "sglang/srt/layers/layernorm.py",
        "sglang/srt/layers/flashinfer_comm_fusion.py",
        "flashinfer/comm/trtllm_ar.py",
        "flashinfer/jit/comm.py",
        "flashinfer/data/csrc/trtllm_allreduce_fusion.cu",
        "flashinfer/data/include/flashinfer/comm/trtllm_allreduce_fusion.cuh",
    ]
    files = [hop["file"] for hop in _hops(told)]
    places = [files.index(file) for file in order]
    assert places == sorted(places)
    assert all(hop["verified"] for hop in _hops(told))


def test_the_default_is_told_from_the_flag(told: dict[str, Any]) -> None:
    (default,) = [hop for hop in _hops(told) if hop["kind"] == "default"]
    assert default["file"] == "sglang/srt/server_args.py" and "bypass" in default["note"]
    assert [gate["line"] for gate in default["gates"] if gate["status"] == "closed"] == [1691]


def test_each_gate_has_its_condition_its_archs_and_whether_it_is_reached(told: dict[str, Any]) -> None:
    closed = {
        (gate["file"], gate["line"]): gate
        for hop in _hops(told)
        for gate in hop["gates"]
        if gate["status"] == "closed" and gate["passes"]
    }
    (module,) = [gate for (file, _), gate in closed.items() if file == "flashinfer/jit/comm.py"]
    assert module["passes"] == [90, 100, 103, 107] and module["reached"] == "yes"
    assert "[9, 10]" in module["condition"]
    communicator = closed["sglang/srt/layers/communicator.py", 95]
    assert communicator["passes"] == [90, 100, 103, 107] and communicator["reached"] == "yes"


def test_the_served_header_is_open_and_the_co_compiled_one_closed(told: dict[str, Any]) -> None:
    fusion = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce_fusion.cuh"
    served = [gate for hop in _hops(told) if hop["file"] == fusion for gate in hop["gates"]]
    assert served and {gate["status"] for gate in served} == {"open"}
    apart = [hop for hop in _hops(told, "apart") if hop["file"].endswith("/trtllm_allreduce.cuh")]
    closed = [gate for hop in apart for gate in hop["gates"] if gate["status"] == "closed"]
    assert len(closed) == 13
    assert {gate["reached"] for gate in closed} == {"no"}


def test_every_gate_of_the_four_files_is_opened_and_nothing_else(told: dict[str, Any], story_site: Path) -> None:
    series = told["series"]
    assert set(series["after"]) == FILES
    assert series["refused"] == []
    assert {arch for edit in series["edits"] for arch in edit["riders"]} == {121}
    assert "supported_major_versions=[9, 10, 12]" in told["diff"]
    assert "or is_sm120_supported()" in told["diff"]
    overlay = Path(told["overlay"])
    found = subprocess.run(
        [sys.executable, "-m", "ungate", "scan", str(overlay), "--target", "sm_120", "--json"],
        capture_output=True,
        text=True,
        timeout=500,
    )
    gates = json.loads(found.stdout)["gates"]
    header = [gate for gate in gates if gate["file"].endswith("comm/trtllm_allreduce.cuh")]
    assert len(header) == 15 and {gate["status"] for gate in header} == {"open"}
    for gate in header:
        assert {90, 100, 103, 110, 120, 121} <= set(gate["passes"])
    assert not any(80 in gate["passes"] for gate in header if "1200" in gate["condition"])


def test_the_edited_python_compiles_and_the_edited_header_preprocesses(told: dict[str, Any]) -> None:
    overlay = Path(told["overlay"])
    for file in FILES:
        if file.endswith(".py"):
            compile((overlay / file).read_text(), file, "exec")
    header = (overlay / "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh").read_text()
    bare = "\n".join(line for line in header.splitlines() if not line.lstrip().startswith("#include"))
    kept = {}
    for arch in (800, 900, 1000, 1200, 1210):
        done = subprocess.run(
            ["g++", "-E", "-P", f"-D__CUDA_ARCH__={arch}", "-x", "c++", "-"],
            input=bare,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        kept[arch] = done.stdout.count("cudaGridDependencySynchronize")
    assert kept[900] == kept[1000] == kept[1200] == kept[1210] > kept[800]


def test_the_installed_files_are_byte_for_byte_as_recorded(told: dict[str, Any], story_site: Path) -> None:
    for package in packages.below(story_site):
        assert packages.deviations(package) == ()
    assert set(told["pristine"]) == {"flashinfer-python", "sglang"}
    assert all(count > 1000 for count in told["pristine"].values())


def test_it_says_what_the_next_stages_need(told: dict[str, Any]) -> None:
    said = " ".join(told["next"])
    assert "toolkit" in said and "GPU" in said and "'--'" in said


def test_the_check_names_the_kernel_that_would_be_hollow(told: dict[str, Any]) -> None:
    hollow = [
        finding for finding in told["findings"] if "lamport_style_one_shot_all_reduce_norm_kernel" in finding["what"]
    ]
    assert hollow and all("only the JIT gate" in finding["what"] for finding in hollow)
    assert {finding["reached"] for finding in hollow} == {"no"}
