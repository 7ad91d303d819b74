"""What a script and a shell make of an error: one document under ``--json``, and commands that can be copied."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patch.site import story

import ungate
from ungate.cli import doctor
from ungate.cli.main import main
from ungate.errors import shell
from ungate.model import Target
from ungate.patch import open_series
from ungate.patch.bundle import write_bundle
from ungate.patch.content import changed
from ungate.plain import counted

SOURCE = Path(ungate.__file__).parent
_PLACES = {"site", "root", "path", "folder", "log", "lock", "into", "inside", "place", "python"}
_MANY = {"patch/stack.py", "check/rules/resources.py", "cli/_why.py", "cli/why.py", "cli/lint.py", "recipes/loader.py"}
_COMMAND = re.compile(r"(?:--site|--python|--policy|git -C|\bls -\w+|\bless|\bdf -h|\bmv|\brm|\brm -r|\bfuser) $")


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("UNGATE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["report", "99", "--json"], "no run to report on"),
        (["check", "nosuch", "--target", "sm_120", "--json"], "no recipe named 'nosuch'"),
        (["check", "--json"], "FEATURE"),
        (["nosuch", "--json"], "nosuch"),
        (["patch", "status", "--site", "/nowhere/at/all", "--json"], "/nowhere/at/all"),
        (["ledger", "import", "/nowhere/at/all", "--json"], "/nowhere/at/all"),
    ],
)
def test_an_error_is_one_document_where_one_was_asked_for(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # what one call wrote does not keep the next from writing
        assert main(words) == 3
        out, err = capsys.readouterr()
        told = json.loads(out)
        assert set(told) == {"error", "next", "exit"} and said in told["error"] and told["next"]
        assert told["exit"] == 3 and err.startswith(f"ungate: {told['error']}")


def test_the_servers_own_words_ask_for_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nosuch", "--target", "sm_120", "--", "server", "--json"]) == 3
    assert capsys.readouterr().out == ""


def test_an_interrupt_and_a_fault_are_documents_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(error: BaseException) -> None:
        def work(**_: object) -> None:
            raise error

        monkeypatch.setattr(doctor.doctor, "callback", work)

    raises(KeyboardInterrupt())
    assert main(["doctor", "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["exit"] == 130
    raises(LookupError("nobody thought of it"))
    assert main(["doctor", "--json"]) == 3
    assert "nobody thought of it" in json.loads(capsys.readouterr().out)["error"]


def test_a_document_that_was_begun_stays_the_only_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ungate.cli.output import document

    def work(**_: object) -> None:
        document({"answer": 42})
        raise LookupError("afterwards")

    monkeypatch.setattr(doctor.doctor, "callback", work)
    assert main(["doctor", "--json"]) == 3
    assert json.loads(capsys.readouterr().out) == {"answer": 42}


def _filled() -> Iterator[tuple[str, str, ast.FormattedValue, str]]:
    """Every place that a message fills in: where it stands, the text before it, and the text after it."""
    for file in sorted(SOURCE.rglob("*.py")):
        if file.relative_to(SOURCE).parts[0] in {"lab", "launch", "measure", "probe", "scan", "source", "trace"}:
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.JoinedStr):
                continue
            parts = [str(part.value) if isinstance(part, ast.Constant) else part for part in node.values]
            for before, part, after in zip(["", *parts], parts, [*parts[1:], ""], strict=False):
                if isinstance(part, ast.FormattedValue):
                    texts = [text if isinstance(text, str) else "" for text in (before, after)]
                    yield f"{file.relative_to(SOURCE)}:{node.lineno}", texts[0], part, texts[1]


def _names(part: ast.FormattedValue) -> set[str]:
    found = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
    return found | {node.attr for node in ast.walk(part) if isinstance(node, ast.Attribute)}


def _unquoted() -> Iterator[str]:
    for where, before, part, _ in _filled():
        if _COMMAND.search(before) and _names(part) & _PLACES and "shell" not in _names(part):
            yield where


def _always_many() -> Iterator[str]:
    for where, before, part, after in _filled():
        called = part.value.func if isinstance(part.value, ast.Call) else None
        number = isinstance(called, ast.Name) and called.id == "len" and re.match(r" (?:more )?[a-z]{3,}s\b", after)
        share = before.endswith(" of ")  # "1 of 1 files" is said of a share, and a share is no count
        if number and not share and where.partition(":")[0] not in _MANY:
            yield where


def test_a_path_in_a_command_that_is_told_is_quoted() -> None:
    assert list(_unquoted()) == []
    assert shlex.split(f"ungate patch pop --site {shell(Path('/a b/it'))}")[-1] == "/a b/it"


def test_one_thing_is_told_as_one() -> None:
    assert list(_always_many()) == []
    assert (counted(1, "file"), counted(0, "file"), counted(1, "entry", "entries")) == ("1 file", "0 files", "1 entry")


@pytest.mark.parametrize("name", ["two words 'and' \"quotes\"", os.fsdecode(b"no\xfftext")])
def test_a_push_into_any_folder_says_how_it_is_undone(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packages, gates = story(tmp_path / name)
    series = open_series("story", gates, Target(120), packages)
    contents = {file: (old, new) for file, (_, old, new) in changed(series, packages).items()}
    bundle = tmp_path / "story.toml"
    bundle.write_text(write_bundle(series, contents, {p.name: p.version for p in packages}), encoding="utf-8")
    before = {path: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()}
    assert main(["patch", "push", str(bundle), "--site", str(tmp_path / name)]) == 0
    undo = capsys.readouterr().out.rsplit("To undo: ungate ", 1)[1]
    words = shlex.split(undo)
    if name.isascii():
        assert words[-1] == str(tmp_path / name)
    assert main([*words[:-1], str(tmp_path / name)]) == 0
    assert {path: path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()} == before
