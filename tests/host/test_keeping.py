"""A cache that cannot be written costs time and no answer, and is told once."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ungate.errors import Refusal
from ungate.host import assembler, children, declarations, downloads, keeping, toolchain
from ungate.model import Target


@pytest.fixture
def blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder that is a file: nobody, root neither, can write into it."""
    folder = tmp_path / "cache"
    folder.touch()
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(folder))
    keeping.warned()
    return folder


def test_what_is_kept_is_there_and_nothing_is_told(tmp_path: Path) -> None:
    keeping.keep(tmp_path / "new/entry.json", b"{}")
    assert (tmp_path / "new/entry.json").read_bytes() == b"{}"
    assert keeping.warned() == ""


def test_what_cannot_be_kept_is_told_once(blocked: Path) -> None:
    keeping.keep(blocked / "a/entry.json", b"{}")
    keeping.keep(blocked / "b/entry.json", b"{}")
    told = keeping.warned()
    assert str(blocked) in told and told.endswith("export UNGATE_CACHE_DIR=DIR")
    assert keeping.warned() == ""


def test_the_tools_answer_without_a_cache(blocked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler, "_judge", lambda pieces, target: dict.fromkeys(pieces, ""))
    monkeypatch.setattr(declarations, "_ask", lambda nvcc, names, target: dict.fromkeys(names, True))
    monkeypatch.setattr(toolchain, "need", Path)
    monkeypatch.setattr(toolchain, "tool", lambda name: None)
    assert assembler.refusals(["nop;"], Target(90)) == (None,)
    assert keeping.warned()
    assert declarations.declared(["__nanosleep"], Target(90)) == frozenset({"__nanosleep"})
    assert keeping.warned()


@pytest.mark.parametrize("said", ["OSError: [Errno 28] No space left on device", "error: (os error 28)"])
def test_a_download_that_finds_no_room_says_so(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, log: Path | None = None, **__: object) -> children.Outcome:
        if log is not None:
            log.write_text(said)
        return children.Outcome(2, 0.1, False, log, said)

    monkeypatch.setattr(children, "run", full)
    monkeypatch.setattr(downloads, "uv", lambda: "uv")
    for way in (downloads.by_pip, downloads.by_uv):
        with pytest.raises(Refusal, match=r"no space is left .* df -h"):
            way(Requirement("a==1"), tmp_path)
