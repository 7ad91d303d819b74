"""A private copy, first on the path; the installed files are not touched."""

# ruff: noqa: E501

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patch.site import gate, install, story

from ungate.errors import Refusal
from ungate.host.packages import below, deviations
from ungate.model import Form, Target
from ungate.patch import create, open_series
from ungate.patch.caches import caches


def _digest(site: Path) -> dict[str, tuple[str, int]]:
    files = (path for path in sorted(site.rglob("*")) if path.is_file())
    return {str(p.relative_to(site)): (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns) for p in files}


def test_the_edited_copy_is_imported_and_the_installed_files_stay(tmp_path: Path) -> None:
    site = tmp_path / "site"
    packages, gates = story(site)
    before = _digest(site)
    series = open_series("story", gates, Target(120), packages)
    overlay = create(series, packages, tmp_path / "arms", base={"PATH": os.environ["PATH"], "PYTHONPATH": str(site)})
    assert _digest(site) == before
    assert all(deviations(package) == () for package in packages)
    code = "import kernels.jit, importlib.metadata as m; print(kernels.jit.module(), kernels.jit.__file__, m.version('kernels'))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=dict(overlay.environment), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[9,", "10,", "12]", str(overlay.root / "kernels/jit.py"), "1.0"]
    assert {package.name for package in below(overlay.root)} == {"kernels", "engine"}


def test_nothing_is_shared_with_the_installed_files(tmp_path: Path) -> None:
    site = tmp_path / "site"
    packages, gates = story(site)
    overlay = create(open_series("s", gates, Target(120), packages), packages, tmp_path / "arms")
    for path in overlay.root.rglob("*"):
        if path.is_file():
            assert path.stat().st_nlink == 1 and not path.is_symlink()
            assert path.stat().st_ino != (site / path.relative_to(overlay.root)).stat().st_ino


def test_only_the_affected_packages_are_copied_and_scripts_come_along(tmp_path: Path) -> None:
    site = tmp_path / "site"
    packages, gates = story(site)
    install(site, "other", "1", {"other.py": b"x = 1\n"})
    script = site / "bin" / "serve"
    script.parent.mkdir()
    script.write_text("#!/usr/bin/env python\nimport engine\n")
    script.chmod(0o755)
    record = site / "engine-2.0.dist-info/RECORD"
    record.write_text(record.read_text() + "../../bin/serve,,\n")
    overlay = create(open_series("s", gates, Target(120), packages), packages, tmp_path / "arms")
    assert not (overlay.root / "other.py").exists()
    assert os.access(overlay.scripts / "serve", os.X_OK)
    assert overlay.environment["PATH"].startswith(f"{overlay.scripts}{os.pathsep}")


def test_an_identical_overlay_is_used_again_and_a_damaged_one_made_anew(tmp_path: Path) -> None:
    packages, gates = story(tmp_path / "site")
    series = open_series("s", gates, Target(120), packages)
    first = create(series, packages, tmp_path / "arms")
    (first.caches / "triton").mkdir(parents=True)
    again = create(series, packages, tmp_path / "arms")
    assert first.made and not again.made and first.root == again.root
    (first.root / "kernels/jit.py").write_text("broken")
    repaired = create(series, packages, tmp_path / "arms")
    assert repaired.made and (repaired.root / "kernels/jit.py").read_text() != "broken"
    assert (first.caches / "triton").is_dir(), "compiled modules persist"


def test_every_cache_variable_points_into_the_arm(tmp_path: Path) -> None:
    packages, gates = story(tmp_path / "site")
    overlay = create(
        open_series("s", gates, Target(120), packages), packages, tmp_path / "arms", base={"HOME": "/home/u"}
    )
    assert len(caches()) >= 12
    for cache in caches():
        for variable in cache.variables:
            assert Path(overlay.environment[variable]).is_relative_to(overlay.caches)
    assert overlay.environment["FLASHINFER_CUBIN_DIR"] == "/home/u/.cache/flashinfer/cubins"
    assert overlay.environment["PYTHONPATH"] == str(overlay.root)


def test_a_file_that_changed_since_the_series_was_made_leaves_no_overlay(tmp_path: Path) -> None:
    packages, gates = story(tmp_path / "site")
    series = open_series("s", gates, Target(120), packages)
    (tmp_path / "site/kernels/jit.py").write_text("# mine\n")
    with pytest.raises(Refusal, match="is not the file that the series"):
        create(series, packages, tmp_path / "arms")
    assert not (tmp_path / "arms").exists()


def test_a_file_behind_a_link_is_refused(tmp_path: Path) -> None:
    packages, gates = story(tmp_path / "site")
    (tmp_path / "site/kernels/include").rename(tmp_path / "elsewhere")
    (tmp_path / "site/kernels/include").symlink_to(tmp_path / "elsewhere")
    series = open_series("s", gates, Target(120), packages)
    before = (tmp_path / "elsewhere/fused.cuh").read_bytes()
    with pytest.raises(Refusal, match="behind the link"):
        create(series, packages, tmp_path / "arms")
    assert (tmp_path / "elsewhere/fused.cuh").read_bytes() == before
    assert not list((tmp_path / "arms").rglob("*.py"))


def test_the_copy_of_an_editable_installation_is_read_where_it_is(tmp_path: Path) -> None:
    story(tmp_path / "site")
    site, source = tmp_path / "site", tmp_path / "checkout"
    source.mkdir()
    (site / "kernels").rename(source / "kernels")
    info = site / "kernels-1.0.dist-info"
    (info / "direct_url.json").write_text(json.dumps({"url": source.as_uri(), "dir_info": {"editable": True}}))
    (info / "RECORD").write_text("__editable__.kernels-1.0.pth,,\n")
    (site / "__editable__.kernels-1.0.pth").write_text(f"{source}\n")
    packages = below(site)
    found = next(package for package in packages if package.name == "kernels")
    assert found.editable and found.root == source
    opened = gate(found, "kernels/jit.py", "[9, 10]", (90, 100), Form.INT_LIST)
    overlay = create(open_series("story", (opened,), Target(120), packages), packages, tmp_path / "overlays")
    (copied,) = [package for package in below(overlay.root) if package.name == "kernels"]
    assert (copied.root, copied.tops, copied.editable) == (overlay.root, ("kernels",), False)
    assert b"12" in (copied.root / "kernels/jit.py").read_bytes()
    assert b"12" not in (source / "kernels/jit.py").read_bytes()
