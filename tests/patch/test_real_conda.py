"""A real conda environment: made by rattler, the installer of pixi, from a channel of two packages on this disk.

Budget: 25 MB to download (py-rattler from the package index), 250 MB on disk, 2 minutes. conda and micromamba are not
on the package index, and conda-forge is not needed: the channel holds this interpreter as the package ``python``,
and a small library with gates. What counts is what conda leaves: files that are hard links to its package cache, which
every environment of the user shares, a ``conda-meta`` beside ``lib``, and conda's own word on who installed what.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.patch.site import install
from tests.patch.test_installers import _FILES, _base, _series, _workers

from ungate.host.environment import resolve
from ungate.host.packages import deviations, find
from ungate.patch import create
from ungate.patch.stack import pop, push

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_VERSION = ".".join(map(str, sys.version_info[:3]))
_SHORT = f"python{sys.version_info.major}.{sys.version_info.minor}"
_INSTALL = """
import asyncio, sys
from pathlib import Path
from rattler import Channel, Subdir, index, install, solve

async def main(channel, cache, *prefixes):
    await index.index_fs(channel)
    found = await solve(sources=[Channel(Path(channel).as_uri())], specs=["kernels"], platforms=["linux-64", "noarch"])
    for prefix in prefixes:
        await install(found, target_prefix=prefix, cache_dir=cache, show_progress=False)

asyncio.run(main(*sys.argv[1:]))
"""


def _pack(
    folder: Path, channel: Path, subdir: str, name: str, version: str, noarch: str = "", depends: str = ""
) -> None:
    """A conda package of the folder's content: ``info/index.json`` and the files, in a ``.tar.bz2``."""
    listed = sorted(path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    paths = [{"_path": path.relative_to(folder).as_posix(), "path_type": "hardlink"} for path in listed]
    info = folder / "info"
    info.mkdir()
    index = {
        "name": name,
        "version": version,
        "build": "0",
        "build_number": 0,
        "subdir": subdir,
        "depends": [depends] * bool(depends),
    }
    if noarch:
        index["noarch"] = noarch
        (info / "link.json").write_text(json.dumps({"noarch": {"type": noarch}, "package_metadata_version": 1}))
    (info / "index.json").write_text(json.dumps(index))
    (info / "paths.json").write_text(json.dumps({"paths": paths, "paths_version": 1}))
    (channel / subdir).mkdir(parents=True, exist_ok=True)
    with tarfile.open(channel / subdir / f"{name}-{version}-0.tar.bz2", "w:bz2", compresslevel=1) as archive:
        for path in (*sorted(info.iterdir()), *listed):
            archive.add(path, path.relative_to(folder).as_posix())


def _interpreter(folder: Path) -> None:
    """This interpreter as a package lays it out: the program, its library, and the standard library in a zip file."""
    base, standard = Path(sys.base_prefix), Path(sysconfig.get_path("stdlib"))
    (folder / "bin").mkdir(parents=True)
    shutil.copy2(base / "bin" / _SHORT, folder / "bin" / _SHORT)
    shutil.copy2(base / "bin" / _SHORT, folder / "bin/python")
    (folder / "lib" / _SHORT).mkdir(parents=True)
    for library in (base / "lib").glob("libpython*.so*"):
        shutil.copy2(library, folder / "lib" / library.name)
    shutil.copytree(standard / "lib-dynload", folder / "lib" / _SHORT / "lib-dynload")
    shutil.copy2(standard / "os.py", folder / "lib" / _SHORT / "os.py")  # where the prefix is, is told by this file
    with zipfile.ZipFile(
        folder / "lib" / f"{_SHORT.replace('.', '')}.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1
    ) as packed:
        for path in sorted(standard.rglob("*.py")):
            inside = path.relative_to(standard)
            if not {"site-packages", "test", "tests", "idlelib", "lib2to3", "tkinter"} & set(inside.parts):
                packed.write(path, inside.as_posix())


@pytest.fixture(scope="module")
def conda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the environments ``envs/serve`` and ``envs/other`` and the cache that they share."""
    root = tmp_path_factory.mktemp("conda")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--target", root / "tool", "py-rattler>=0.28"],
        check=True,
        timeout=300,
    )
    _interpreter(root / "python")
    _pack(root / "python", root / "channel", "linux-64", "python", _VERSION)
    install(root / "kernels/site-packages", "kernels", "1.0", _FILES, installer="conda")
    _pack(
        root / "kernels", root / "channel", "noarch", "kernels", "1.0", noarch="python", depends=f"python {_VERSION}.*"
    )
    done = subprocess.run(
        [sys.executable, "-c", _INSTALL, root / "channel", root / "pkgs", root / "envs/serve", root / "envs/other"],
        env={"PYTHONPATH": str(root / "tool"), "HOME": str(root), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return root


def test_an_overlay_and_a_push_leave_the_shared_cache_alone(conda: Path, tmp_path: Path) -> None:
    python = conda / "envs/serve/bin/python"
    environment = resolve(None, python)
    package = find(environment, "kernels")
    site = conda / "envs/serve/lib" / _SHORT / "site-packages"
    assert (package.root, package.installer) == (site, "conda")
    assert (conda / "envs/serve/conda-meta/kernels-1.0-0.json").is_file()
    assert deviations(package) == ()
    names = (site / "kernels/jit.py").stat().st_nlink
    assert names >= 3  # both environments and the cache
    kept = {
        path: path.read_bytes()
        for folder in (conda / "pkgs", conda / "envs/other")
        for path in folder.rglob("kernels*/**/*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert any(path.name == "jit.py" for path in kept)

    series = _series(package)
    overlay = create(series, (package,), tmp_path / "arms", base=_base(python))
    assert all(path.stat().st_nlink == 1 for path in overlay.root.rglob("*") if path.is_file())
    _workers(overlay, str(python), "-m", "kernels.main")

    assert push(series, (package,)).done
    assert (site / "kernels/jit.py").read_text().count("[9, 10, 12]") == 1
    assert {path: path.read_bytes() for path in kept} == kept
    pop(site, (package,))
    assert deviations(package) == ()
    assert {path: path.read_bytes() for path in kept} == kept
