from __future__ import annotations

from pathlib import Path

import pytest

from ungate.host.folders import cache_dir, state_dir


def test_the_variables_win(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "c"))
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "s"))
    assert (cache_dir(), state_dir()) == (tmp_path / "c", tmp_path / "s")
    assert not (tmp_path / "c").exists()  # naming a folder does not make it


def test_a_relative_folder_is_made_absolute_and_home_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_CACHE_DIR", "here")
    monkeypatch.setenv("UNGATE_STATE_DIR", "~/there")
    assert cache_dir() == Path.cwd() / "here"
    assert state_dir() == Path.home() / "there"


def test_without_variables_the_platform_decides_and_the_two_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNGATE_CACHE_DIR", raising=False)
    monkeypatch.setenv("UNGATE_STATE_DIR", "  ")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x/cache")
    monkeypatch.setenv("XDG_STATE_HOME", "/x/state")
    assert cache_dir() == Path("/x/cache/ungate")
    assert state_dir() == Path("/x/state/ungate")
