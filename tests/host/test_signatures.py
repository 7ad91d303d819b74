"""A file that no one wrote since it was last compared is not read again; any write is seen."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.host import packages, pristine, signatures
from ungate.host.packages import Package

_FILES = {"flash/__init__.py": "x = 1\n", "flash/a.cu": "__global__\n"}


@pytest.fixture
def package(make_site: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(signatures, "_SETTLED_NS", -1)
    (found,) = packages.below(make_site({"flash==1": _FILES}))
    return found


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read, by name."""
    names: list[str] = []
    digest = pristine._digest

    def noting(path: str, algorithm: str) -> str:
        names.append(Path(path).name)
        return digest(path, algorithm)

    monkeypatch.setattr(pristine, "_digest", noting)
    return names


def test_what_was_compared_is_not_read_again(package: Package, read: list[str]) -> None:
    assert packages.deviations(package, remembered=True) == ()
    assert {"__init__.py", "a.cu"} <= set(read)
    read.clear()
    assert packages.deviations(package, remembered=True) == ()
    assert read == []
    assert packages.deviations(package) == ()
    assert "a.cu" in read


def test_a_write_is_seen_even_with_the_old_size_and_the_old_time(package: Package, read: list[str]) -> None:
    path = package.root / "flash/__init__.py"
    assert packages.deviations(package, remembered=True) == ()
    state = path.stat()
    path.write_text("x = 2\n")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert path.stat().st_size == state.st_size and path.stat().st_mtime_ns == state.st_mtime_ns
    assert packages.deviations(package, remembered=True) == (("flash/__init__.py", "changed"),)
    read.clear()
    assert packages.deviations(package, remembered=True) == (("flash/__init__.py", "changed"),)
    assert read == ["__init__.py"], "what deviates is not remembered"


def test_another_file_at_the_place_a_missing_one_and_another_record(package: Package) -> None:
    path = package.root / "flash/a.cu"
    assert packages.deviations(package, remembered=True) == ()
    state = path.stat()
    path.rename(path.with_name("kept"))
    assert packages.deviations(package, remembered=True) == (("flash/a.cu", "missing"),)
    path.write_text("__GLOBAL__\n")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert packages.deviations(package, remembered=True) == (("flash/a.cu", "changed"),)
    path.with_name("kept").replace(path)
    assert packages.deviations(package, remembered=True) == ()
    assert package.info is not None
    record = package.info / "RECORD"
    record.write_text(record.read_text().replace("a.cu,sha256=", "a.cu,sha256=A"))
    assert packages.deviations(package, remembered=True) == (("flash/a.cu", "changed"),)


def test_a_file_written_just_now_is_read_again(
    package: Package, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signatures, "_SETTLED_NS", 3_000_000_000)
    assert packages.deviations(package, remembered=True) == ()
    read.clear()
    assert packages.deviations(package, remembered=True) == ()
    assert "a.cu" in read


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "info": "/x", "files": {}}'])
def test_a_damaged_store_counts_as_empty(package: Package, read: list[str], tmp_path: Path, text: str) -> None:
    assert packages.deviations(package, remembered=True) == ()
    (store,) = (tmp_path / "cache/signatures").iterdir()
    store.write_text(text)
    read.clear()
    assert packages.deviations(package, remembered=True) == ()
    assert "a.cu" in read


def test_a_store_that_cannot_be_written_is_no_error(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "file"))
    assert packages.deviations(package, remembered=True) == ()
