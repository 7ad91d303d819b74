"""``ungate cache`` lists and purges the caches of overlays as well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ungate.cli.main import main


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An overlay of FlashInfer 0.6.3 with one compiled module, and an empty environment beside it."""
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "ungate"))
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    arm = tmp_path / "ungate/overlays/0123456789abcdef"
    header = arm / "site/flashinfer/data/include/comm.cuh"
    header.parent.mkdir(parents=True)
    header.write_text("#define OPEN\n")
    info = arm / "site/flashinfer_python-0.6.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: flashinfer-python\nVersion: 0.6.3\n")
    (info / "RECORD").write_text("flashinfer/data/include/comm.cuh,,\n")
    module = arm / "cache/flashinfer/.cache/flashinfer/0.6.3/120a/cached_ops/comm"
    module.mkdir(parents=True)
    (module / "build.ninja").write_text(f"build {module}/x.o: cc {header}\n")
    (module / "comm.so").write_bytes(b"machine code")
    (tmp_path / "ungate/overlays/link").symlink_to(arm)
    other = tmp_path / "site/other-1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Name: other\nVersion: 1\n")
    (other / "RECORD").write_text("other.py,,\n")
    return arm


def _listed(tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str]]:
    assert main(["cache", *arguments, "--site", str(tmp_path / "site"), "--json"]) == 0
    listed: list[dict[str, str]] = json.loads(capsys.readouterr().out)["entries"]
    return [entry for entry in listed if entry["cache"] == "flashinfer"]


def test_an_overlays_module_is_listed_once_and_becomes_stale(
    arm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (entry,) = _listed(tmp_path, capsys, "ls")
    assert entry["name"] == "comm" and Path(entry["path"]).is_relative_to(arm) and entry["state"] == "unknown"
    (arm / "site/flashinfer/data/include/comm.cuh").write_text("#define CLOSED\n")
    (entry,) = _listed(tmp_path, capsys, "ls", "--stale")
    assert "comm.cuh has another content" in entry["reason"]
    assert _listed(tmp_path, capsys, "purge", "flashinfer-python", "--yes")
    assert not Path(entry["path"]).exists() and arm.joinpath("site").is_dir()


def test_another_versions_module_is_judged_by_the_overlays_packages(
    arm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    info = arm / "site/flashinfer_python-0.6.3.dist-info/METADATA"
    info.write_text("Name: flashinfer-python\nVersion: 0.6.4\n")
    (entry,) = _listed(tmp_path, capsys, "ls")
    assert entry["state"] == "stale" and "0.6.4 is installed" in entry["reason"]
