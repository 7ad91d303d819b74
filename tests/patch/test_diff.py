"""A unified diff that git takes, forwards and backwards, whatever the lines end in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.patch.site import story

from ungate.model import Target
from ungate.patch import open_series
from ungate.patch.content import changed
from ungate.patch.diff import file_diff, unified


def _git(folder: Path, *arguments: str, given: str = "") -> None:
    data = given.encode("utf-8", "surrogateescape")
    subprocess.run(["git", *arguments], cwd=folder, input=data, check=True, capture_output=True, timeout=60)


def test_git_applies_the_series_and_takes_it_back(tmp_path: Path) -> None:
    packages, gates = story(tmp_path)
    series = open_series("story", gates, Target(120), packages)
    expected = changed(series, packages)
    text = unified(series, packages)
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "apply", "-", given=text)
    assert {file: (tmp_path / file).read_bytes() for file in expected} == {
        f: after for f, (_, _, after) in expected.items()
    }
    _git(tmp_path, "apply", "-R", "-", given=text)
    assert {file: (tmp_path / file).read_bytes() for file in expected} == {
        f: old for f, (_, old, _) in expected.items()
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb", b"a\nc"),
        (b"a\nb\n", b"a\nb"),
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"one\x0cline\nb\n", b"one\x0cline\nc\n"),
        (b"caf\xe9\nb\n", b"caf\xe9\nc\n"),
        (b"", b"new\n"),
    ],
)
def test_ends_of_lines_and_odd_bytes_survive(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "f.txt").write_bytes(before)
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "apply", "-", given=file_diff("f.txt", before, after))
    assert (tmp_path / "f.txt").read_bytes() == after


def test_no_change_is_no_diff() -> None:
    assert file_diff("f", b"same", b"same") == ""
