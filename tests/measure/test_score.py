from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ungate.measure.score import score


def ask(code: str, folder: Path, deadline_s: float = 20.0) -> tuple[float | None, str]:
    argv = [sys.executable, "-c", code, "{url}/v1", "{model}"]
    found = score(argv, url="http://127.0.0.1:8000", model="tiny", folder=folder, deadline_s=deadline_s)
    return found.value, found.note


@pytest.mark.parametrize("line", ["0.75", '{"score": 0.75, "tasks": 12}'])
def test_the_last_line_is_the_score(line: str, tmp_path: Path) -> None:
    assert ask(f"print('12 tasks'); print({line!r}); print()", tmp_path) == (0.75, "")


def test_the_program_learns_where_the_server_is(tmp_path: Path) -> None:
    ask("import sys; print(sys.argv[1:]); print(1)", tmp_path)
    assert "['http://127.0.0.1:8000/v1', 'tiny']" in (tmp_path / "score.out").read_text()


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("print(1); raise SystemExit(3)", "exit code 3"),
        ("print('all good')", "printed no score"),
        ("print('NaN')", "printed no score"),
        ("print('true')", "printed no score"),
        ("pass", "printed no score"),
    ],
)
def test_no_score_is_none_and_never_zero(code: str, note: str, tmp_path: Path) -> None:
    value, said = ask(code, tmp_path)
    assert value is None and note in said


def test_a_program_that_does_not_end_is_ended(tmp_path: Path) -> None:
    value, said = ask("import time; time.sleep(60)", tmp_path, deadline_s=1.0)
    assert value is None and "did not end within 1 s" in said
