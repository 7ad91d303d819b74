from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
from pathlib import Path

import pytest

import ungate.lab
from ungate.errors import Refusal
from ungate.lab.install import DISTRIBUTIONS, Lab, command, environment, install


def test_both_are_ordinary_distributions(lab: Lab) -> None:
    found = {each.metadata["Name"]: each for each in importlib.metadata.distributions(path=[str(lab.site)])}
    assert sorted(found) == sorted(DISTRIBUTIONS)
    engine, kernels = found["lab-engine"], found["lab-kernels"]
    assert f"lab-kernels=={kernels.version}" in (engine.requires or [])
    assert [point.value for point in engine.entry_points] == ["labengine.launch:main"]


def test_record_lists_every_file_with_its_hash(lab: Lab) -> None:
    written = {path.relative_to(lab.site).as_posix() for path in lab.site.rglob("*") if path.is_file()}
    listed = set()
    for record in lab.site.glob("*.dist-info/RECORD"):
        for name, digest, size in csv.reader(record.read_text().splitlines()):
            listed.add(name)
            if digest:
                content = (lab.site / name).read_bytes()
                encoded = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                assert (digest, size) == (f"sha256={encoded}", str(len(content))), name
    assert listed == {name for name in written if "__pycache__" not in name}


def test_every_source_is_installed(lab: Lab) -> None:
    home = Path(ungate.lab.__file__).parent
    for folder in ("kernels", "engine"):
        for path in (home / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert (lab.site / path.relative_to(home / folder)).read_bytes() == path.read_bytes()


def test_a_second_install_replaces_the_first(tmp_path: Path) -> None:
    install(tmp_path / "site")
    changed = tmp_path / "site/labkernels/jit/comm.py"
    before = changed.read_bytes()
    changed.write_text("broken")
    (tmp_path / "site/labkernels/left_over.py").write_text("")
    install(tmp_path / "site")
    assert changed.read_bytes() == before
    assert not (tmp_path / "site/labkernels/left_over.py").exists()


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(Refusal, match=r"thesis\.tex"):
        install(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_overlay_comes_first_on_the_path(lab: Lab, tmp_path: Path) -> None:
    variables = environment(lab, arch="12.0", cache=tmp_path / "c", overlay=tmp_path / "o")
    assert variables["PYTHONPATH"].split(":") == [str(tmp_path / "o"), str(lab.site)]
    assert command(lab, port=9, tp=4, fused=True)[1:] == (
        "-m", "labengine.launch", "--port", "9", "--tp", "4", "--enable-fused-allreduce",
    )  # fmt: skip
