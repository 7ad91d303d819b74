"""Real wheels: the story's four files in FlashInfer 0.6.3 and SGLang 0.5.9, in an overlay and in place."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.patch.site import gate

from ungate.host.index import install
from ungate.host.packages import Package, below, deviations
from ungate.model import Form, Gate, Series, Target
from ungate.patch import create, open_series
from ungate.patch.bundle import write_bundle
from ungate.patch.content import changed
from ungate.patch.proof import compiles, preprocesses
from ungate.patch.upstream import in_checkout

pytestmark = pytest.mark.wheels

_HEADER = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
_CONDITION = "(defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))"
_OLD = (90, 100, 103, 107)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels") / "site"
    install(["flashinfer-python==0.6.3", "sglang==0.5.9"], folder)
    return folder


def _gates(packages: tuple[Package, ...]) -> list[Gate]:
    flashinfer, sglang = sorted(packages, key=lambda package: package.name)
    expression = Form.PYTHON_EXPRESSION
    return [
        gate(sglang, "sglang/srt/server_args.py", "is_sm90_supported() or is_sm100_supported()", _OLD, expression,
             names=("is_sm90_supported", "is_sm100_supported")),
        gate(sglang, "sglang/srt/layers/communicator.py", "_is_sm90_supported or _is_sm100_supported", _OLD, expression,
             names=("_is_sm90_supported", "_is_sm100_supported")),
        gate(flashinfer, "flashinfer/jit/comm.py", "[9, 10]", _OLD, Form.INT_LIST),
        *(gate(flashinfer, _HEADER, _CONDITION, (*_OLD, 110), Form.PREPROCESSOR, nth=n) for n in range(13)),
    ]  # fmt: skip


def _series(packages: tuple[Package, ...]) -> Series:
    return open_series("allreduce", _gates(packages), Target(120), packages)


def test_the_four_files_of_the_story(site: Path, tmp_path: Path) -> None:
    packages = below(site)
    series = _series(packages)
    assert series.refused == () and len(series.after) == 4
    assert {edit.riders for edit in series.edits} == {(121,)}
    started = time.monotonic()
    overlay = create(series, packages, tmp_path)
    seconds = time.monotonic() - started
    print(f"overlay of {overlay.files} files in {seconds:.2f} s")
    assert seconds < 5, "about one second on an idle machine"
    assert compiles(series, overlay.root) == () and preprocesses(series, overlay.root) == ()
    assert all(deviations(package) == () for package in packages)
    communicator = (overlay.root / "sglang/srt/layers/communicator.py").read_text()
    assert "    is_sm100_supported,\n    is_sm120_supported,\n)" in communicator
    assert "_is_sm100_supported = _is_cuda and is_sm100_supported()\n" in communicator
    assert "(_is_sm90_supported or _is_sm100_supported or is_sm120_supported())" in communicator
    assert (overlay.root / _HEADER).read_text().count("__CUDA_ARCH__ == 1210") == 13


def _ungate(*arguments: str, state: Path) -> str:
    environment = {**os.environ, "UNGATE_STATE_DIR": str(state)}
    done = subprocess.run(
        [sys.executable, "-m", "ungate", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _digests(root: Path) -> dict[str, str]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_an_image_is_built_from_a_bundle(site: Path, tmp_path: Path) -> None:
    """What a Dockerfile does: a fresh environment, an installation, push of a bundle; and back again."""
    packages = below(site)
    series = _series(packages)
    contents = {file: (old, new) for file, (_, old, new) in changed(series, packages).items()}
    bundle = tmp_path / "allreduce.toml"
    bundle.write_text(write_bundle(series, contents, {p.name: p.version for p in packages}), encoding="utf-8")
    venv, state = tmp_path / "venv", tmp_path / "state"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, timeout=300)
    pip = [str(venv / "bin/python"), "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "flashinfer-python==0.6.3", "sglang==0.5.9"], check=True, timeout=900)
    (there,) = venv.glob("lib/python3*/site-packages")
    before = _digests(there)
    python = str(venv / "bin/python")
    assert json.loads(_ungate("patch", "status", "--python", python, "--json", state=state))["pristine"] is True
    _ungate("patch", "push", str(bundle), "--python", python, state=state)
    status = json.loads(_ungate("patch", "status", "--python", python, "--json", state=state))
    assert status["pristine"] is False and status["series"][0]["standing"]["state"] == "applied"
    pushed = _digests(there)
    assert {file for file in pushed if pushed[file] != before.get(file)} == {
        *series.after, "ungate_pushed.pth", "_ungate_pushed.py",
    }  # fmt: skip
    # its dependencies are not installed, so the import fails: the line comes first
    said = subprocess.run([python, "-c", "import sglang"], capture_output=True, text=True, check=False)
    assert said.stderr.count("ungate: ") == 1 and "'allreduce'" in said.stderr
    _ungate("patch", "pop", "--python", python, state=state)
    assert _digests(there) == before
    assert json.loads(_ungate("patch", "status", "--python", python, "--json", state=state))["pristine"] is True


def test_uvs_cache_and_its_other_environments_stay_as_they_are(tmp_path: Path) -> None:
    uv = _uv(tmp_path)
    environment = {**os.environ, "UV_CACHE_DIR": str(tmp_path / "cache"), "UV_LINK_MODE": "hardlink"}
    for name in ("a", "b"):
        subprocess.run([uv, "venv", "-q", "-p", sys.executable, str(tmp_path / name)], env=environment, check=True)
        python = str(tmp_path / name / "bin/python")
        install_ = [uv, "pip", "install", "-q", "--no-deps", "-p", python, "flashinfer-python==0.6.3"]
        subprocess.run(install_, env=environment, check=True, timeout=600)
    (a,), (b,) = (list((tmp_path / name).glob("lib/python3*/site-packages")) for name in ("a", "b"))
    assert (a / _HEADER).stat().st_nlink >= 3, "uv makes hard links here, or the test shows nothing"
    others = {folder: _digests(folder) for folder in (b, tmp_path / "cache")}
    packages = tuple(p for p in below(a) if p.name == "flashinfer-python")
    asked = [gate(packages[0], _HEADER, _CONDITION, (*_OLD, 110), Form.PREPROCESSOR, nth=n) for n in range(13)]
    series = open_series("header", asked, Target(120), packages)
    contents = {file: (old, new) for file, (_, old, new) in changed(series, packages).items()}
    bundle = tmp_path / "header.toml"
    bundle.write_text(write_bundle(series, contents, {"flashinfer-python": "0.6.3"}), encoding="utf-8")
    before = _digests(a)
    _ungate("patch", "push", str(bundle), "--site", str(a), state=tmp_path / "state")
    assert _digests(a) != before
    assert {folder: _digests(folder) for folder in others} == others
    _ungate("patch", "pop", "--site", str(a), state=tmp_path / "state")
    assert _digests(a) == before and {folder: _digests(folder) for folder in others} == others


def _uv(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", str(folder / "uv")], check=True, timeout=300)
    python = folder / "uv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", "uv"], check=True, timeout=600)
    return str(folder / "uv/bin/uv")


def test_git_takes_the_export_in_a_checkout(site: Path, tmp_path: Path) -> None:
    """The projects' repositories lay the same files out differently."""
    packages = below(site)
    series = _series(packages)
    names = {"flashinfer": "flashinfer-python", "sglang": "sglang"}
    from ungate.patch.diff import file_diff

    parts = []
    for file, (path, before, after) in sorted(changed(series, packages).items()):
        place = in_checkout(names[file.split("/")[0]], file)
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(path.read_bytes())
        parts.append(file_diff(place, before, after))
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input="".join(parts).encode(), check=True)
    assert (tmp_path / "python/sglang/srt/server_args.py").is_file()
    header = (tmp_path / "include/flashinfer/comm/trtllm_allreduce.cuh").read_bytes()
    assert hashlib.sha256(header).hexdigest() == series.after[_HEADER]
