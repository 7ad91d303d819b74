"""A pushed series says so once a process, wherever its packages are imported from."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patch.site import story

from ungate.host.packages import Package
from ungate.model import Series, Target
from ungate.patch import open_series
from ungate.patch.announce import FILES
from ungate.patch.stack import pop, push


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))


def _files(site: Path) -> dict[str, str]:
    return {
        str(path.relative_to(site)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(site.rglob("*"))
        if path.is_file()
    }


def _first(site: Path) -> tuple[Series, tuple[Package, ...]]:
    packages, gates = story(site)
    return open_series("first", gates, Target(120), packages), packages


def test_a_pushed_series_announces_itself_once_a_process(tmp_path: Path) -> None:
    import venv

    folder = tmp_path / "venv"
    venv.create(folder, symlinks=True)
    real = next(folder.glob("lib/python3*/site-packages"))
    series, packages = _first(real)
    run = [str(folder / "bin/python"), "-c", "import json, kernels, kernels.jit, engine, kernels"]
    push(series, packages)
    said = subprocess.run(run, capture_output=True, text=True, check=True).stderr
    assert said.count("ungate:") == 1
    assert "series 'first'" in said and "ungate patch pop --site" in said and "kernels 1.0" in said
    quiet = subprocess.run([folder / "bin/python", "-c", "import json"], capture_output=True, text=True, check=True)
    assert quiet.stderr == ""
    pop(real, packages)
    assert subprocess.run([*run[:2], "import kernels"], capture_output=True, text=True, check=True).stderr == ""
    assert not any((real / name).exists() for name in FILES)
    assert not list((real / "__pycache__").glob("_ungate*"))


def test_a_folder_that_is_only_on_pythonpath_announces_too(tmp_path: Path) -> None:
    folder, hidden = tmp_path / "target", tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import builtins\nbuiltins.hidden_ran = __name__\n")
    series, packages = _first(folder)
    before = _files(folder)
    push(series, packages)
    path = os.pathsep.join([str(folder), str(hidden)])
    code = "import json, kernels, engine, sitecustomize; print(hidden_ran, sitecustomize.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stderr.count("ungate:") == 1 and "series 'first'" in done.stderr
    assert done.stdout.split() == ["sitecustomize", str(hidden / "sitecustomize.py")]
    pop(folder, packages)
    assert {name: text for name, text in _files(folder).items() if "__pycache__" not in name} == before


def test_somebody_elses_sitecustomize_stays(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    series, packages = _first(folder)
    (folder / "sitecustomize.py").write_text("# mine\n")
    before = _files(folder)
    push(series, packages)
    assert (folder / "sitecustomize.py").read_text() == "# mine\n"
    pop(folder, packages)
    assert _files(folder) == before
