from __future__ import annotations

import json
import multiprocessing
import os
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.host import downloads, index, packages, wheel

MakeWheel = Callable[..., Path]
FILES = {"demo_kernels/__init__.py": "VERSION = 1\n", "demo_kernels/csrc/a.cu": "__global__ void a() {}\n"}
SCRIPTS = "[console_scripts]\ndemo-tool = demo_kernels.tool:main\n\n[other]\nx = y\n"


@pytest.fixture
def published(index: Path, make_wheel: MakeWheel) -> Path:
    """An index with two versions of a wheel, a source distribution, and a wheel for a strange platform."""
    folder = index / "demo-kernels"
    make_wheel(folder, "demo-kernels", "1.0", FILES, entry_points=SCRIPTS)
    make_wheel(folder, "demo-kernels", "1.1", FILES)
    make_wheel(index / "strange-wheel", "strange-wheel", "1.0", {}, tag="cp39-cp39-win_arm64")
    (index / "source-only").mkdir()
    with tarfile.open(index / "source-only" / "source-only-2.0.tar.gz", "w:gz"):
        pass
    return index


def refusal(requirement: str) -> str:
    with pytest.raises(Refusal) as caught:
        index_fetch(requirement)
    assert caught.value.next_step
    return str(caught.value)


index_fetch = index.fetch


def test_a_pinned_version_is_fetched_once(published: Path, tmp_path: Path) -> None:
    said: list[str] = []
    root = index.fetch("demo-kernels==1.0", lambda what, done=0, total=0: said.append(what))
    assert root == tmp_path / "cache" / "wheels" / "demo-kernels" / "1.0"
    assert (root / "demo_kernels/csrc/a.cu").read_text() == FILES["demo_kernels/csrc/a.cu"]
    assert said[0] == "fetching demo-kernels==1.0"
    note = json.loads((root.parent / "1.0.json").read_text())
    (archive,) = (published / "demo-kernels").glob("*-1.0-*.whl")
    assert note["sha256"] == wheel.digest(archive)
    assert note["bytes"] == archive.stat().st_size
    (package,) = packages.below(root)
    assert (package.name, package.version) == ("demo-kernels", "1.0")
    assert packages.deviations(package) == ()


def test_a_cached_answer_needs_no_network_and_no_installer(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = index.fetch("demo_kernels==1.0")
    monkeypatch.setattr(downloads, "have_pip", lambda: False)
    monkeypatch.setenv("PATH", "")
    assert index.fetch("Demo.Kernels == 1.0.0") == root


def test_a_name_alone_is_the_latest(published: Path) -> None:
    assert index.fetch("demo-kernels").name == "1.1"
    assert index.fetch("demo-kernels<1.1").name == "1.0"


def test_nothing_but_whole_versions_is_left(published: Path, tmp_path: Path) -> None:
    index.fetch("demo-kernels==1.0")
    refusal("demo-kernels==7")
    wheels = tmp_path / "cache" / "wheels"
    assert sorted(path.name for path in wheels.iterdir()) == [".locks", "demo-kernels"]
    assert sorted(path.name for path in (wheels / "demo-kernels").iterdir()) == ["1.0", "1.0.json"]


def test_a_half_download_of_a_killed_process_does_not_count(published: Path, tmp_path: Path) -> None:
    wheels = tmp_path / "cache" / "wheels"
    half = wheels / ".partial-demo-kernels=abc" / "unpacked" / "demo_kernels"
    half.mkdir(parents=True)
    root = index.fetch("demo-kernels==1.0")
    assert (root / "demo_kernels" / "__init__.py").exists()
    assert not half.exists()


def test_an_unknown_distribution(published: Path) -> None:
    said = refusal("no-such-kernels==1.0")
    assert "knows no distribution 'no-such-kernels'" in said
    assert "pip said: No matching distribution found for no-such-kernels==1.0." in said


def test_an_unknown_version_names_the_newest(published: Path) -> None:
    said = refusal("demo-kernels==9.9")
    assert "has no version that fits '==9.9'" in said
    assert "The newest there are 1.0, 1.1." in said
    assert said.endswith("demo-kernels==1.1")


def test_source_only(published: Path) -> None:
    assert "is published as source only" in refusal("source-only==2.0")
    assert "is published as source only" in refusal("source-only")


def test_a_wheel_for_another_platform(published: Path) -> None:
    assert "has no wheel for Python" in refusal("strange-wheel==1.0")


def test_no_network(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    said = refusal("demo-kernels==1.0")
    assert "could not be reached" in said
    assert "Connection refused" in said


def test_a_damaged_wheel_is_refused_and_not_kept(published: Path, tmp_path: Path) -> None:
    (archive,) = (published / "demo-kernels").glob("*-1.1-*.whl")
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(Refusal):
        index.fetch("demo-kernels==1.1")
    assert not (tmp_path / "cache" / "wheels" / "demo-kernels").exists()


@pytest.mark.parametrize(
    "text",
    [
        "-r requirements.txt",
        "--index-url=http://x",
        "a @ https://example.org/a.whl",
        "./folder",
        "",
        "a[extra]==1",
        "a;b",
        "a==1 b",
    ],
)
def test_what_is_more_than_a_name_and_a_version_is_refused(text: str) -> None:
    with pytest.raises(Refusal):
        index.parse(text)


def test_without_pip_and_uv_both_are_named(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "have_pip", lambda: False)
    monkeypatch.setattr(downloads, "uv", lambda: None)
    said = refusal("demo-kernels==1.0")
    assert "has no pip" in said
    assert "no uv is on PATH" in said


def _fetch_in_a_process(environment: dict[str, str]) -> str:
    os.environ.update(environment)
    return str(index.fetch("demo-kernels==1.0"))


def test_two_processes_at_once_agree(published: Path, tmp_path: Path) -> None:
    chosen = {name: os.environ[name] for name in ("PIP_INDEX_URL", "PIP_CONFIG_FILE", "UNGATE_CACHE_DIR")}
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        roots = pool.map(_fetch_in_a_process, [chosen, chosen])
    assert set(roots) == {str(tmp_path / "cache" / "wheels" / "demo-kernels" / "1.0")}


def test_a_lock_that_is_not_given_back(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    monkeypatch.setattr(index, "_LOCK_S", 0.1)
    lock = tmp_path / "cache" / "wheels" / ".locks" / "demo-kernels"
    lock.parent.mkdir(parents=True)
    with FileLock(lock):
        assert "Another process has been fetching" in refusal("demo-kernels==1.0")


def test_install_is_what_pip_target_leaves(published: Path, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    (package,) = index.install(["demo-kernels==1.0"], ours)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--target", str(theirs)]
    subprocess.run([*command, "demo-kernels==1.0"], check=True, timeout=120)

    def tree(root: Path) -> set[str]:
        return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}

    assert tree(ours) == tree(theirs) - {"demo_kernels-1.0.dist-info/REQUESTED"}
    assert packages.deviations(package) == ()
    assert (ours / "bin" / "demo-tool").stat().st_mode & stat.S_IXUSR
    assert (package.installer, package.tops) == ("ungate", ("demo_kernels",))


def test_an_installed_script_runs(index: Path, make_wheel: MakeWheel, tmp_path: Path) -> None:
    files = {"demo_kernels/__init__.py": "", "demo_kernels/tool.py": "def main():\n    print('ran')\n    return 4\n"}
    make_wheel(index / "demo-kernels", "demo-kernels", "1.0", files, entry_points=SCRIPTS)
    from ungate.host.index import install

    install(["demo-kernels==1.0"], tmp_path / "into")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "into")}
    ran = subprocess.run(
        [tmp_path / "into" / "bin" / "demo-tool"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (4, "ran\n")


def test_install_twice_changes_nothing_and_another_version_is_refused(published: Path, tmp_path: Path) -> None:
    index.install(["demo-kernels==1.0"], tmp_path / "into")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "into").rglob("*")}
    index.install(["demo-kernels==1.0"], tmp_path / "into")
    with pytest.raises(Refusal, match=r"already holds demo-kernels 1\.0, not 'demo-kernels==1\.1'"):
        index.install(["demo-kernels==1.1"], tmp_path / "into")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "into").rglob("*")} == before


def test_install_overwrites_no_folder_of_the_user(published: Path, tmp_path: Path) -> None:
    mine = tmp_path / "into" / "demo_kernels" / "__init__.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(Refusal, match="is there already"):
        index.install(["demo-kernels==1.0"], tmp_path / "into")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("place", ["../evil.py", "/etc/evil.py", "a/../../evil.py", "a\\..\\evil.py"])
def test_a_member_that_points_out_of_the_folder_is_refused(make_wheel: MakeWheel, tmp_path: Path, place: str) -> None:
    path = make_wheel(tmp_path / "w", "evil", "1.0", {})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(zipfile.ZipInfo(place), "x")
    with pytest.raises(Refusal, match="points out of the folder"):
        wheel.unpack(path, tmp_path / "into")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["w"]


def test_a_link_in_a_wheel_is_refused(make_wheel: MakeWheel, tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "w", "evil", "1.0", {})
    member = zipfile.ZipInfo("evil/link")
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(Refusal, match="is a link"):
        wheel.unpack(path, tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_a_file_that_is_no_wheel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_text("text")
    with pytest.raises(Refusal, match="is damaged"):
        wheel.unpack(tmp_path / "x.whl", tmp_path / "into")
    with zipfile.ZipFile(tmp_path / "y.whl", "w") as archive:
        archive.writestr("a.py", "")
    with pytest.raises(Refusal, match="it is no wheel"):
        wheel.unpack(tmp_path / "y.whl", tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_purelib_is_spread_and_recorded_where_it_lies(make_wheel: MakeWheel, tmp_path: Path) -> None:
    files = {"spread-1.0.data/purelib/spread/__init__.py": "x = 1\n", "spread-1.0.data/headers/a.h": ""}
    info = wheel.unpack(make_wheel(tmp_path / "w", "spread", "1.0", files), tmp_path / "into")
    assert (tmp_path / "into" / "spread" / "__init__.py").exists()
    package = packages.read(info)
    assert package.tops == ("spread",)
    assert packages.deviations(package) == ()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param("cause: Because x was not found in the package registry and you require x", "knows no", id="name"),
        pytest.param("cause: Because there is no version of x==9 and you require x==9", "has no version", id="version"),
        pytest.param("cause: Because all versions of x have no usable wheels and you", "source only", id="source"),
        pytest.param(
            "cause: tcp connect error\ncause: Connection refused (os error 111)", "could not be reached", id="net"
        ),
        pytest.param("cause: something new", "could not be downloaded: uv said: something new", id="other"),
    ],
)
def test_the_words_of_uv_are_sorted(said: str, words: str) -> None:
    """The texts are those of uv 0.13.9."""
    assert words in str(downloads._uv_refusal(index.parse("x==9"), f"Using CPython 3.11\nerror: none\n{said}\n"))


@pytest.mark.wheels
def test_uv_serves_an_environment_without_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Installs uv into a folder of its own and fetches a small wheel with it."""
    tools = tmp_path / "tools"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", tools, "uv"], check=True, timeout=280)
    monkeypatch.setenv("PATH", f"{tools / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(downloads, "have_pip", lambda: False)
    root = index.fetch("click==8.1.8")
    (package,) = packages.below(root)
    assert (package.name, package.version, package.installer) == ("click", "8.1.8", "uv")
    assert packages.deviations(package) == ()
    assert (root / "click" / "__init__.py").stat().st_nlink == 1
    assert "knows no distribution" in refusal("ungate-no-such-distribution==1.0")


def test_a_cache_that_cannot_be_made_names_the_variable_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "file"))
    assert "export UNGATE_CACHE_DIR=DIR" in refusal("demo-kernels==1.0")
