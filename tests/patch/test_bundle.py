"""A series in one file: it fits exactly or it is refused whole."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import pytest
from tests.patch.site import install, story

from ungate.errors import Refusal
from ungate.host.packages import Package
from ungate.model import Series, Target
from ungate.patch import open_series
from ungate.patch.bundle import is_bundle, packages_of, read_bundle, write_bundle
from ungate.patch.content import changed
from ungate.patch.stack import pop, push


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))


def _bundle(tmp_path: Path) -> tuple[Path, Series]:
    packages, gates = story(tmp_path / "here")
    series = open_series("story", gates, Target(120), packages)
    contents = {file: (old, new) for file, (_, old, new) in changed(series, packages).items()}
    path = tmp_path / "story.toml"
    path.write_text(write_bundle(series, contents, {p.name: p.version for p in packages}), encoding="utf-8")
    return path, series


@pytest.fixture
def there(tmp_path: Path) -> tuple[Package, ...]:
    """Another node with the same packages."""
    return story(tmp_path / "there")[0]


def test_another_node_gets_the_same_bytes(tmp_path: Path, there: tuple[Package, ...]) -> None:
    path, series = _bundle(tmp_path)
    assert is_bundle(path) and set(packages_of(path)) == {"kernels", "engine"}
    read = read_bundle(path, there)
    assert (read.name, read.target, dict(read.after)) == ("story", Target(120), dict(series.after))
    assert {arch for edit in read.edits for arch in edit.riders} == {121}
    before = {file: (tmp_path / "there" / file).read_bytes() for file in series.before}
    assert push(read, there).done
    again = push(read_bundle(path, there), there)
    assert not again.done and "already" in again.note
    pop(tmp_path / "there", there)
    assert {file: (tmp_path / "there" / file).read_bytes() for file in series.before} == before


def test_one_hash_that_differs_refuses_the_whole_and_names_it(tmp_path: Path, there: tuple[Package, ...]) -> None:
    path, _ = _bundle(tmp_path)
    (tmp_path / "there/kernels/jit.py").write_text("# mine\n")
    with pytest.raises(Refusal, match=r"kernels/jit\.py has another sha256.*It is for engine 2\.0, kernels 1\.0"):
        read_bundle(path, there)


def test_a_half_applied_bundle_is_refused(tmp_path: Path, there: tuple[Package, ...]) -> None:
    path, series = _bundle(tmp_path)
    done = changed(series, story(tmp_path / "here")[0])
    (tmp_path / "there/kernels/jit.py").write_bytes(done["kernels/jit.py"][2])
    with pytest.raises(Refusal, match="1 of 3 files are as after the bundle already"):
        read_bundle(path, there)


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    path, _ = _bundle(tmp_path)
    other = (install(tmp_path / "empty", "other", "1", {"other.py": b""}),)
    with pytest.raises(Refusal, match="is in none of the packages"):
        read_bundle(path, other)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("format = 1", "format = 9", "this ungate reads format 1"),
        ("format = 1", 'format = 1\nrun = "rm"', "unknown field 'run'"),
        ("format = 1", "format = [", "no TOML"),
        ("format = 1", "format = " + "[" * 50_000, "no TOML"),
        ('name = "story"', "name = 3", "'name' is missing"),
        ("path = ", "place = ", "exactly path"),
        ("+    return flags(supported_major_versions=[9, 10, 12])", "+    return flags(supported_major_versions=[9, 10, 13])", "does not give the content"),
        ('path = "kernels/jit.py"', 'path = "../kernels/jit.py"', "leads out|none of the packages"),
    ],
)  # fmt: skip
def test_a_bundle_that_was_tampered_with_is_refused(
    tmp_path: Path, there: tuple[Package, ...], old: str, new: str, reason: str
) -> None:
    path, _ = _bundle(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(Refusal, match=reason):
        read_bundle(path, there)


def test_awkward_text_survives(tmp_path: Path) -> None:
    before = b"a = '''x'''\nb = \"q\\n\"\nc = 1\x7f\t\n"
    after = before.replace(b"c = 1", b"c = '''2'''")
    package = install(tmp_path, "odd", "1", {"odd.py": before})
    from ungate.patch.content import digest, sha256
    from ungate.patch.hunks import edits_between

    edits = edits_between("odd.py", before, after)
    hashes = {"odd.py": sha256(before)}
    series = Series("odd", Target(0), edits, hashes, {"odd.py": sha256(after)}, (), digest(edits, hashes))
    path = tmp_path / "odd.toml"
    path.write_text(write_bundle(series, {"odd.py": (before, after)}, {"odd": "1"}), encoding="utf-8", newline="")
    assert read_bundle(path, (package,)).after == series.after
    with pytest.raises(Refusal, match="not UTF-8"):
        write_bundle(series, {"odd.py": (b"\xff\na\n", b"\xff\nb\n")}, {})
