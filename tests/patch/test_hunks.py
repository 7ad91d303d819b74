"""Unified diffs, strictly: git's own diffs fit, anything else is refused with the line."""

# ruff: noqa: E501

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from ungate.errors import Refusal
from ungate.patch.content import apply as apply_edits
from ungate.patch.diff import file_diff
from ungate.patch.hunks import apply, edits_between, parse

_OLD = b"".join(b"line %d\n" % i for i in range(40))
_NEW = _OLD.replace(b"line 5\n", b"line five\n").replace(b"line 30\n", b"").replace(b"line 35\n", b"line 35\nextra\n")


def _git_diff(folder: Path, old: bytes, new: bytes) -> bytes:
    (folder / "f.txt").write_bytes(old)
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    subprocess.run(["git", "add", "f.txt"], cwd=folder, check=True)
    (folder / "f.txt").write_bytes(new)
    return subprocess.run(["git", "diff", "--no-color"], cwd=folder, check=True, capture_output=True).stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [(_OLD, _NEW), (_NEW, _OLD), (b"a\nb", b"a\nc"), (b"a\nb\n", b"a\nb"), (b"a\r\n\r\nb\r\n", b"a\r\n\r\nc\r\n"), (b"a\n", b"x\na\n")],
)  # fmt: skip
def test_gits_own_diff_applies_and_goes_back(tmp_path: Path, old: bytes, new: bytes) -> None:
    (patch,) = parse(_git_diff(tmp_path, old, new))
    assert patch.path == "f.txt"
    assert apply(old, patch) == new
    assert apply(new, patch, reverse=True) == old


def test_our_own_diffs_apply_and_go_back() -> None:
    source = random.Random(7)
    for _ in range(200):
        old = b"".join(
            source.choice([b"a\n", b"b\n", b"\n", b"\x0c\n", b"c\r\n"]) for _ in range(source.randrange(1, 30))
        )
        lines = old.split(b"\n")
        for _ in range(source.randrange(1, 5)):
            lines[source.randrange(len(lines))] = source.choice([b"z", b"a", b""])
        new = b"\n".join(lines)
        if old == new:
            continue
        (patch,) = parse(file_diff("f", old, new).encode())
        assert apply(old, patch) == new and apply(new, patch, reverse=True) == old
        assert apply_edits(old, edits_between("f", old, new)) == new


def test_a_drift_of_one_line_is_refused_and_may_be_allowed() -> None:
    (patch,) = parse(file_diff("f", _OLD, _NEW).encode())
    shifted = b"new first line\n" + _OLD
    with pytest.raises(
        Refusal, match=r"f, line 3: the patch expects 'line 2', and the file has 'line 1'.*at line 4 now"
    ):
        apply(shifted, patch)
    assert apply(shifted, patch, moved=True) == b"new first line\n" + _NEW
    twice = shifted + _OLD
    with pytest.raises(Refusal):
        apply(twice, patch, moved=True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "is not the beginning"),
        (b"hello\n", "is not the beginning"),
        (b"--- a/f\n", "names no second one"),
        (b"--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", "renames f to g"),
        (b"--- /dev/null\n+++ b/g\n@@ -0,0 +1 @@\n+b\n", "adds or removes"),
        (b"--- a/f\n+++ b/f\n", "changes nothing"),
        (b"--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n", "more lines than there are"),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n*a\n", "belongs to no hunk"),
        (b"--- a/f\n+++ b/f\n@@ nonsense\n", "no hunk header"),
        (b"diff --git a/f b/f\nGIT binary patch\n", "binary"),
        (b"diff --git a/f b/f\nnew file mode 100644\n", "new file"),
        (b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-b\n+c\n", "twice"),
    ],
)  # fmt: skip
def test_what_is_no_plain_change_of_lines_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        parse(text)
