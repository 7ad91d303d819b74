"""What installers leave: pip, pip -e, an upgrade that runs beside a push, conda's hard links; and worker processes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.patch.site import KERNEL, LIST, PREDICATES, gate, install

from ungate.errors import Refusal
from ungate.host.environment import resolve
from ungate.host.packages import Package, below, find
from ungate.model import Form, Gate, Series, Target
from ungate.patch import Overlay, create, open_series
from ungate.patch.announce import FILES
from ungate.patch.stack import pop, pristine, push, standing
from ungate.patch.state import journal_of

_OLD = (90, 100, 103, 107)
_MAIN = b"""import multiprocessing
import sys
from importlib import metadata, resources
from pathlib import Path

import kernels.jit


def work(_):
    import kernels.jit

    header = Path(kernels.jit.__file__).parent / "include/fused.cuh"
    packed = resources.files("kernels").joinpath("include/fused.cuh").read_text()
    return kernels.jit.module(), kernels.jit.__file__, "1200 ||" in header.read_text(), packed == header.read_text()


def main():
    for method in sys.argv[1:]:
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, *pool.map(work, range(2)), sep="|")
    print("version", metadata.version("kernels"))


if __name__ == "__main__":
    main()
"""
_FILES = {
    "kernels/__init__.py": b"",
    "kernels/predicates.py": PREDICATES,
    "kernels/flags.py": b"def flags(supported_major_versions):\n    return supported_major_versions\n",
    "kernels/jit.py": LIST,
    "kernels/main.py": _MAIN,
    "kernels/include/fused.cuh": KERNEL,
}
_CONDITION = "(defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    for name in ("PYTHONPATH", "PIP_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)


def _wheel(folder: Path, version: str, files: Mapping[str, bytes]) -> Path:
    info = f"kernels-{version}.dist-info"
    everything = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: kernels\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": b"[console_scripts]\nkernels-serve = kernels.main:main\n",
    }
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
        for name, data in everything.items()
    ]
    everything[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"kernels-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in everything.items():
            archive.writestr(name, data)
    return path


def _pip(python: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [str(python), "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check"]
    return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _installed(python: Path, *arguments: str) -> None:
    done = _pip(python, *arguments)
    said, _ = done.communicate(timeout=240)
    assert done.returncode == 0, said


@pytest.fixture
def python(tmp_path: Path) -> Path:
    folder = tmp_path / "venv"
    venv.create(folder, symlinks=True, with_pip=True)
    return folder / "bin/python"


def _gates(package: Package) -> tuple[Gate, ...]:
    return (
        gate(package, "kernels/jit.py", "[9, 10]", _OLD, Form.INT_LIST),
        gate(package, "kernels/include/fused.cuh", _CONDITION, (*_OLD, 110), Form.PREPROCESSOR),
    )


def _series(package: Package) -> Series:
    return open_series("kernels", _gates(package), Target(120), (package,))


def _workers(overlay: Overlay, *argv: str) -> None:
    """Run the package's own program through the overlay: each worker of each start method reads the edited copy."""
    methods = ("spawn", "fork", "forkserver")
    done = subprocess.run(
        [*argv, *methods], env=dict(overlay.environment), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = dict(line.split("|", 1) for line in done.stdout.splitlines() if "|" in line)
    worker = f"([9, 10, 12], {str(overlay.root / 'kernels/jit.py')!r}, True, True)"
    assert lines == {method: f"{worker}|{worker}" for method in methods}
    assert "version 1.0" in done.stdout


def _base(python: Path) -> dict[str, str]:
    return {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}


def test_workers_and_console_scripts_of_a_pip_installation(python: Path, tmp_path: Path) -> None:
    _installed(python, str(_wheel(tmp_path / "wheels", "1.0", _FILES)))
    package = find(resolve(None, python), "kernels")
    before = {p: p.read_bytes() for p in package.root.rglob("*") if p.is_file() and p.suffix != ".pyc"}
    overlay = create(_series(package), (package,), tmp_path / "arms", base=_base(python))
    _workers(overlay, str(python), "-m", "kernels.main")
    script = shutil.which("kernels-serve", path=overlay.environment["PATH"])
    assert script is not None and Path(script).parent == overlay.scripts
    _workers(overlay, script)
    assert {p: p.read_bytes() for p in before} == before


def test_a_real_editable_installation(python: Path, tmp_path: Path) -> None:
    """pip install -e with a build backend in the tree: push says use git, an overlay works, the checkout stays."""
    project = tmp_path / "project"
    for name, data in _FILES.items():
        (project / "python" / name).parent.mkdir(parents=True, exist_ok=True)
        (project / "python" / name).write_bytes(data)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "kernels"\nversion = "1.0"\n'
    )
    (project / "backend.py").write_text(
        "import pathlib, zipfile\n"
        "def build_editable(folder, config_settings=None, metadata_directory=None):\n"
        "    name, info = 'kernels-1.0-py3-none-any.whl', 'kernels-1.0.dist-info'\n"
        "    files = {\n"
        "        '_kernels.pth': str(pathlib.Path('python').resolve()) + '\\n',\n"
        "        f'{info}/METADATA': 'Metadata-Version: 2.1\\nName: kernels\\nVersion: 1.0\\n',\n"
        "        f'{info}/WHEEL': 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n',\n"
        "    }\n"
        "    rows = ''.join(f'{each},,\\n' for each in (*files, f'{info}/RECORD'))\n"
        "    with zipfile.ZipFile(pathlib.Path(folder) / name, 'w') as archive:\n"
        "        for each, text in {**files, f'{info}/RECORD': rows}.items():\n"
        "            archive.writestr(each, text)\n"
        "    return name\n"
        "build_wheel = build_editable\n"
    )
    _installed(python, "-e", str(project))
    package = find(resolve(None, python), "kernels")
    assert package.editable and package.root == (project / "python").resolve()
    series = _series(package)
    before = {p: p.read_bytes() for p in (project / "python").rglob("*") if p.is_file()}
    with pytest.raises(Refusal, match="Use git there"):
        push(series, (package,))
    overlay = create(series, (package,), tmp_path / "arms", base=_base(python))
    _workers(overlay, str(python), "-m", "kernels.main")
    assert {p: p.read_bytes() for p in (project / "python").rglob("*") if p.suffix != ".pyc" and p.is_file()} == before


def test_condas_layout(tmp_path: Path) -> None:
    """A folder as conda lays it out: hard links to its package cache, ``conda-meta`` beside ``lib``."""
    cache, prefix = tmp_path / "conda/pkgs/kernels-1.0-py_0", tmp_path / "conda/envs/serve"
    kept = cache / "site-packages"
    install(kept, "kernels", "1.0", _FILES, installer="conda")
    site = prefix / "lib/python3.11/site-packages"
    shutil.copytree(kept, site, copy_function=os.link)
    (prefix / "conda-meta").mkdir()
    (prefix / "conda-meta/kernels-1.0-py_0.json").write_text(json.dumps({"name": "kernels", "version": "1.0"}))
    (package,) = below(site)
    assert package.installer == "conda" and (site / "kernels/jit.py").stat().st_nlink == 2
    in_cache = {p: (p.read_bytes(), p.stat().st_ino) for p in kept.rglob("*") if p.is_file()}
    series = _series(package)
    overlay = create(series, (package,), tmp_path / "arms", base={"PATH": os.environ["PATH"], "PYTHONPATH": str(site)})
    assert all(p.stat().st_nlink == 1 for p in overlay.root.rglob("*") if p.is_file())
    _workers(overlay, sys.executable, "-m", "kernels.main")
    assert push(series, (package,)).done
    assert (site / "kernels/jit.py").read_bytes() != (kept / "kernels/jit.py").read_bytes()
    assert {p: (p.read_bytes(), p.stat().st_ino) for p in in_cache} == in_cache
    pop(site, (package,))
    assert (site / "kernels/jit.py").read_bytes() == (kept / "kernels/jit.py").read_bytes()
    assert {p: (p.read_bytes(), p.stat().st_ino) for p in in_cache} == in_cache


def test_uvs_symbolic_links(tmp_path: Path) -> None:
    """With UV_LINK_MODE=symlink every file is a link into the cache: push refuses, an overlay holds its own."""
    kept, site = tmp_path / "uv-cache/archive-v0/abc", tmp_path / "venv/lib/python3.11/site-packages"
    install(kept, "kernels", "1.0", _FILES, installer="uv")
    for path in kept.rglob("*"):
        place = site / path.relative_to(kept)
        if path.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path)
    (package,) = below(site)
    series = _series(package)
    with pytest.raises(Refusal, match="is a link to"):
        push(series, (package,))
    assert not (site / FILES[0]).exists() and (kept / "kernels/jit.py").read_bytes() == LIST
    overlay = create(series, (package,), tmp_path / "arms", base={"PATH": os.environ["PATH"], "PYTHONPATH": str(site)})
    assert not any(path.is_symlink() for path in overlay.root.rglob("*"))
    _workers(overlay, sys.executable, "-m", "kernels.main")
    assert (kept / "kernels/jit.py").read_bytes() == LIST


def test_an_edit_that_went_into_uvs_cache_is_told(tmp_path: Path) -> None:
    """Whoever edits a hard-linked file in place edits the cache: a new installation brings the edit back."""
    kept, site = tmp_path / "uv-cache/archive-v0/abc", tmp_path / "venv/lib/python3.11/site-packages"
    install(kept, "kernels", "1.0", _FILES, installer="uv")
    shutil.copytree(kept, site, copy_function=os.link)
    (package,) = below(site)
    with (site / "kernels/jit.py").open("ab") as stream:
        stream.write(b"# an edit by hand\n")
    (site / "kernels/flags.py").unlink()
    (site / "kernels/flags.py").write_bytes(b"# a file of its own\n")
    told = dict(pristine((package,), site)["kernels"])
    assert told["kernels/flags.py"] == "changed"
    assert told["kernels/jit.py"].startswith("changed, and so is the cache it was linked from")
    assert "uv cache clean kernels" in told["kernels/jit.py"]


_PUSH = """
import pickle, sys, time
from pathlib import Path
from ungate.errors import Refusal
from ungate.host.packages import below
from ungate.patch.disk import Disk
from ungate.patch.stack import push

site, series = Path(sys.argv[1]), pickle.loads(Path(sys.argv[2]).read_bytes())
how, delay = sys.argv[3], float(sys.argv[4])
(package,) = [p for p in below(site) if p.name == "kernels"]
info = package.info

class Slow(Disk):
    def exchange(self, source, place):
        # hold the transaction open in its middle, after the look, until pip has begun to take the old release away
        wait()
        time.sleep(delay)
        super().exchange(source, place)

def wait():
    while info.exists() and time.monotonic() < until:
        time.sleep(0.002)

until = time.monotonic() + 120
print("ready", flush=True)
sys.stdin.readline()
if how == "late":
    wait()
    time.sleep(delay)
try:
    print("pushed", push(series, [package], disk=Slow() if how == "open" else Disk()).done)
except (Refusal, OSError) as error:
    print("refused", type(error).__name__, error)
"""


@pytest.mark.slow
def test_pip_upgrades_while_a_push_runs(python: Path, tmp_path: Path) -> None:
    """About a minute: whatever wins, no file is between two states, and status tells how the series stands.

    ``open``: the transaction is held open between staging and its renames until pip has begun to remove the old
    release. ``late``: the push begins while pip is at work.
    """
    import pickle

    plenty = {f"kernels/filler/part{n}.py": b"x = %d\n" % n for n in range(200)}
    new = {name: data + b"\n# release 2.0\n" for name, data in {**_FILES, **plenty}.items()}
    first, second = (_wheel(tmp_path / "wheels", *each) for each in (("1.0", {**_FILES, **plenty}), ("2.0", new)))
    _installed(python, str(first))
    package = find(resolve(None, python), "kernels")
    root, series = package.root, _series(package)
    shutil.copytree(root, tmp_path / "as-1.0", symlinks=True)
    stored = tmp_path / "series.pickle"
    stored.write_bytes(pickle.dumps(series))
    outcomes = []
    for how, delay in (("open", 0), ("open", 0.02), ("open", 0.3), ("late", 0), ("late", 0.05), ("late", 0.3)):
        for top in ("kernels", "kernels-1.0.dist-info", "kernels-2.0.dist-info"):
            shutil.rmtree(root / top, ignore_errors=True)
        shutil.copytree(tmp_path / "as-1.0", root, symlinks=True, dirs_exist_ok=True)
        pushing = subprocess.Popen(
            [sys.executable, "-c", _PUSH, str(root), str(stored), how, str(delay)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert pushing.stdout is not None and pushing.stdout.readline() == "ready\n"
        upgrading = _pip(python, "--upgrade", str(second))
        told, _ = pushing.communicate("go\n", timeout=240)
        said, _ = upgrading.communicate(timeout=240)
        assert pushing.returncode == 0 and upgrading.returncode == 0, said
        (package,) = (p for p in below(root) if p.name == "kernels")
        assert package.version == "2.0"
        states = standing(root, (package,))
        ours = {file for each in states for file in each.ours}
        for file, data in new.items():
            found = (root / file).read_bytes()
            # what pip did not write is the series' whole content, and status says that it stands
            assert found == data or (file in ours and hashlib.sha256(found).hexdigest() == series.after[file]), file
        assert journal_of(root).pending() is None
        assert not list(root.rglob(".ungate-*"))
        outcomes.append((how, delay, told.split()[0], *(each.state for each in states)))
        while journal_of(root).stack()["series"]:
            pop(root, (package,))
    print(outcomes)
    assert {each[2] for each in outcomes} <= {"pushed", "refused"}
    assert any(each[2] == "refused" for each in outcomes), "the upgrade was met in its middle at least once"
