"""``ungate why`` and ``ungate lint`` on the lab: what they print, their document and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ungate.cli.main import main
from ungate.lab.install import install


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("why") / "site"
    install(folder)
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))


def why(*arguments: str) -> int:
    return main(["why", *arguments, "--target", "sm_120"])


def test_the_chain_as_text(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert why("lab-allreduce-fusion", "--site", str(site)) == 0
    said = capsys.readouterr().out
    places = [
        "labengine/server_args.py",
        "labengine/communicator.py",
        "labengine/layernorm.py",
        "labengine/fused_comm.py",
        "labkernels/comm/allreduce_fusion.py",
        "labkernels/jit/comm.py",
        "labkernels/data/csrc/allreduce_fusion.cpp",
        "Built beside it",
        "labkernels/data/include/labkernels/comm/allreduce.h",
    ]
    body = said[said.index(" 1 flag") :]
    assert [body.index(place) for place in places] == sorted(body.index(place) for place in places)
    assert said.index("Closed for sm_120") < said.index(" 1 flag")
    assert "reached: no" in said and "decides the default only" in said
    assert all(line == line.rstrip() or len(line) < 400 for line in said.splitlines())


def test_a_text_of_the_runtime_is_told_in_kind(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert why("CUDA error: no kernel image is available for execution on the device", "--site", str(site)) == 0
    said = capsys.readouterr().out
    assert "cudaErrorNoKernelImageForDevice" in said and "ungate cache ls" in said
    assert f"under {site}" in said  # the binaries of the environment were looked into
    assert " by ." not in said and ":0" not in said


def test_the_document(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "No supported CUDA architectures found for major versions [9, 10]."
    assert why(text, "--site", str(site), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["asked"], found["target"], found["known"]) == (text, "sm_120", [])
    chain = found["chains"][0]
    assert [hop["kind"] for hop in chain["hops"]][:2] == ["flag", "default"]
    build = next(hop for hop in chain["hops"] if hop["kind"] == "jit-module")
    assert [(gate["status"], gate["reached"], gate["passes"]) for gate in build["gates"]] == [
        ("closed", "yes", [90, 100, 103, 107])
    ]
    apart = [gate for hop in chain["apart"] for gate in hop["gates"]]
    assert apart and all(gate["reached"] == "no" for gate in apart)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["nothing_of_that_name"], "is no flag, attribute, symbol or error text", id="unknown-question"),
        pytest.param(["lab-allreduce-fusion", "--package", "lab-kernel"], "lab-kernel", id="unknown-package"),
        pytest.param(["flashinfer-allreduce-fusion"], "flashinfer-python", id="recipe-of-other-packages"),
        pytest.param(["none.toml"], "could not be read", id="missing-recipe-file"),
    ],
)
def test_refusals(site: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert why(*arguments, "--site", str(site)) == 3
    said = capsys.readouterr()
    assert said.out == "" and words in said.err and "Traceback" not in said.err


def test_lint_is_clean_where_engine_and_library_agree(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "lab-engine", "lab-kernels", "--site", str(site), "--target", "sm_120"]) == 0
    assert "No contradiction" in capsys.readouterr().out


def test_lint_finds_an_engine_that_admits_what_the_library_refuses(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path / "site")
    for file in ("server_args.py", "communicator.py"):
        path = tmp_path / "site" / "labengine" / file
        text = path.read_text()
        path.write_text(text.replace("sm100_supported()", "sm120_supported()").replace("is_sm100", "is_sm120"))
    platform = tmp_path / "site" / "labengine" / "platform.py"
    platform.write_text(platform.read_text().replace("is_sm100_supported", "is_sm120_supported").replace("10", "12"))
    assert main(["lint", "lab-engine", "lab-kernels", "--site", str(tmp_path / "site"), "--json"]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert findings[0]["rule"] == "engine-admits-library-refuses"
    assert "gen_allreduce_comm_module" in findings[0]["what"] and "sm_120" in findings[0]["what"]
