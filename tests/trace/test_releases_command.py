"""``ungate releases``: a project without wheels, an interrupt, and how far it is where stderr is no terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ungate.cli import output
from ungate.cli.main import main
from ungate.errors import Refusal


@pytest.fixture(autouse=True)
def index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three releases: the first has no wheel, the third is interrupted by the user while it is fetched."""

    def fetch(requirement: str) -> Path:
        if requirement.endswith("==1.3"):
            raise KeyboardInterrupt
        raise Refusal(f"'{requirement}' has no wheel.", "Name another release.")

    monkeypatch.setattr("ungate.trace.releases.listed", lambda distribution: ("1.1", "1.2", "1.3"))
    monkeypatch.setattr("ungate.host.index.fetch", fetch)


def releases(*arguments: str) -> int:
    return main(["releases", "lib", "--feature", "run", "--target", "sm_120", *arguments])


def test_what_was_read_before_an_interrupt_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert releases() == 130
    said = capsys.readouterr().out
    assert "'lib==1.1' has no wheel." in said and "'lib==1.2' has no wheel." in said
    assert "1 of 3 releases were not read" in said


def test_the_document_keeps_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert releases("--json") == 130
    told = json.loads(capsys.readouterr().out)
    assert [each["version"] for each in told["releases"]] == ["1.1", "1.2"]
    assert told["left"] == ["1.3"]


def test_without_an_interrupt_nothing_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    assert releases("--to", "1.2") == 0
    assert "Interrupted" not in capsys.readouterr().out


def test_progress_without_a_terminal_is_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_FIRST_S", 0.0)
    monkeypatch.setattr(output, "_SELDOM_S", 0.0)
    releases("--to", "1.2")
    said = capsys.readouterr().err.splitlines()
    assert said == ["asking for the releases of lib", "reading lib 1.1: 0 of 2", "reading lib 1.2: 1 of 2"]


def test_a_short_command_says_nothing_on_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    releases("--to", "1.2")
    assert capsys.readouterr().err == ""
