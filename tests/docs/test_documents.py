"""The documentation is true: generated parts are current, and every command shown runs and exits as it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "commands.md"})
BLOCK = re.compile(r"(?:<!-- needs: (?P<needs>[a-z, ]+) -->\n)?```console\n(?P<body>.*?)```", re.DOTALL)
MARKS = {"wheels", "toolkit", "slow", "gpu", "vllm", "browser"}


@dataclass(frozen=True)
class Shown:
    """One command line of a page, with the exit code that the page gives it (``# exit 1``, else 0)."""

    page: str
    line: str
    code: int
    needs: frozenset[str]


def shown() -> list[Shown]:
    found = []
    for page in PAGES:
        for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
            needs = frozenset(filter(None, re.split(r"[, ]+", block["needs"] or "")))
            assert needs <= MARKS, f"{page.name}: {needs}"
            for line in block["body"].splitlines():
                if line.startswith("$ "):
                    command, _, comment = line[2:].partition("  # ")
                    code = re.search(r"exit (\d+)", comment)
                    found.append(Shown(page.name, command.strip(), int(code[1]) if code else 0, needs))
    return found


def _parameters() -> list[object]:
    return [
        pytest.param(
            one, id=f"{one.page}: {one.line}", marks=[getattr(pytest.mark, need) for need in sorted(one.needs)]
        )
        for one in shown()
        if one.line.startswith("ungate ")
    ]


def test_generated_parts_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_shows_commands() -> None:
    assert any(one.page == "README.md" for one in shown())


@pytest.mark.parametrize("one", _parameters())
def test_a_command_shown_runs(one: Shown, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "UNGATE_STATE_DIR": str(tmp_path / "state"),
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(one.line)],
        capture_output=True,
        text=True,
        timeout=280,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == one.code, f"{one.line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr
