"""A patch from elsewhere: its paths are found among the installed files, its hunks fit or nothing happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.patch.site import install

from ungate.errors import Refusal
from ungate.host.packages import Package
from ungate.patch.foreign import import_patch, installed_name

_A = b"one\ntwo\nthree\n"


def _patch(path: str, old: bytes = b"two", new: bytes = b"2") -> bytes:
    head = f"--- a/{path}\n+++ b/{path}\n@@ -1,3 +1,3 @@\n".encode()
    return head + b" one\n-" + old + b"\n+" + new + b"\n three\n"


@pytest.fixture
def packages(tmp_path: Path) -> tuple[Package, ...]:
    files = {
        "lib/__init__.py": b"",
        "lib/a.py": _A,
        "lib/data/include/lib/x.cuh": _A,
        "lib/sub/utils.py": _A,
        "lib/other/utils.py": _A,
    }
    return (install(tmp_path, "lib", "1", files),)


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("lib/a.py", "lib/a.py"),
        ("python/lib/a.py", "lib/a.py"),
        ("include/lib/x.cuh", "lib/data/include/lib/x.cuh"),
        ("lib/sub/utils.py", "lib/sub/utils.py"),
    ],
)
def test_paths_of_a_checkout_are_found(packages: tuple[Package, ...], path: str, file: str) -> None:
    assert installed_name(path, packages)[1] == file
    imported = import_patch("p", _patch(path), packages)
    assert set(imported.series.after) == {file} and imported.already == ()
    assert (packages[0].root / file).read_bytes() == _A


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../outside.py", "leads out"),
        ("lib/../../outside.py", "leads out"),
        ("/etc/passwd", "leads out"),
        ("lib\\a.py", "leads out"),
        ("utils.py", "may be any of 2"),
        ("lib/missing.py", "none of the installed"),
        ("elsewhere/b.py", "none of the installed"),
    ],
)
def test_paths_that_are_not_one_installed_file_are_refused(
    packages: tuple[Package, ...], path: str, reason: str
) -> None:
    with pytest.raises(Refusal, match=reason):
        import_patch("p", _patch(path), packages)


def test_changes_that_stand_already_are_named(packages: tuple[Package, ...]) -> None:
    file = packages[0].root / "lib/a.py"
    file.write_bytes(_A.replace(b"two", b"2"))
    both = import_patch("p", _patch("lib/a.py") + _patch("lib/sub/utils.py"), packages)
    assert both.already == ("lib/a.py",) and set(both.series.after) == {"lib/sub/utils.py"}


def test_one_hunk_that_does_not_fit_refuses_the_whole(packages: tuple[Package, ...]) -> None:
    with pytest.raises(Refusal, match="the patch expects 'zwei', and the file has 'two'"):
        import_patch("p", _patch("lib/a.py") + _patch("lib/sub/utils.py", b"zwei"), packages)
