from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from ungate.cli.main import main


@pytest.fixture(autouse=True)
def deep_gemm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A DeepGEMM cache with one whole and one broken kernel; every other cache is empty."""
    for variable in ("FLASHINFER_WORKSPACE_BASE", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "VLLM_CACHE_ROOT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    root = tmp_path / "home/.deep_gemm/cache"
    for name, files in {"kernel.whole.a": ("kernel.cu", "kernel.cubin"), "kernel.half.a": ("kernel.cu",)}.items():
        (root / name).mkdir(parents=True)
        for file in files:
            (root / name / file).write_text("x" * 2000)
    return root


def test_ls_says_what_is_there_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "ls"]) == 0
    said = capsys.readouterr().out
    assert "deep_gemm" in said
    assert "stale" in said
    assert "lacks its source or its cubin" in said
    assert "2.0 kB" in said


def test_ls_as_a_document_and_narrowed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "ls", "Deep_GEMM", "--stale", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert (entry["name"], entry["state"], entry["owner"], entry["size"]) == ("half", "stale", "deep-gemm", 2000)
    assert main(["cache", "ls", "vllm"]) == 0
    assert capsys.readouterr().out == "No cache holds anything here.\n"


def test_purge_is_a_dry_run_until_it_is_confirmed(deep_gemm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "purge", "deep-gemm"]) == 0
    said = capsys.readouterr().out
    assert "Would remove 1 entry, 2.0 kB. Nothing was changed." in said
    assert said.endswith("To remove them: ungate cache purge deep-gemm --yes\n")
    assert len(list(deep_gemm.iterdir())) == 2
    assert main(["cache", "purge", "deep-gemm", "--yes"]) == 0
    assert "Removed 1 entry, 2.0 kB." in capsys.readouterr().out
    assert [path.name for path in deep_gemm.iterdir()] == ["kernel.whole.a"]
    assert main(["cache", "purge", "deep-gemm", "--yes"]) == 0
    assert capsys.readouterr().out == "Nothing of deep-gemm is stale.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["cache", "purge"],
        ["cache", "ls", "--cache", "nope"],
        ["cache", "nope"],
        ["cache", "ls", "vlm"],
        ["cache", "purge", "flashinfer-pyton", "--yes"],
    ],
)
def test_bad_words_are_3(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 3
    caught = capsys.readouterr()
    assert caught.out == ""
    assert "Traceback" not in caught.err


def test_a_misspelt_package_gets_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "purge", "Deep_GEM"]) == 3
    assert "Did you mean deep-gemm?" in capsys.readouterr().err


def test_what_is_told_to_run_asks_the_same_environment(
    deep_gemm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = tmp_path / "a site"
    (site / "some").mkdir(parents=True)
    (site / "some/__init__.py").write_text("")
    assert main(["cache", "purge", "deep-gemm", "--cache", "deep_gemm", "--site", str(site)]) == 0
    told = capsys.readouterr().out.rsplit("To remove them: ungate ", 1)[1]
    words = shlex.split(told)
    assert words == ["cache", "purge", "deep-gemm", "--cache", "deep_gemm", "--site", str(site), "--yes"]
    assert main(words) == 0
    assert [path.name for path in deep_gemm.iterdir()] == ["kernel.whole.a"]
