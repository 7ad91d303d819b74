"""The documentation is true: generated parts are current, and every command shown runs and exits as it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "commands.md"})
BLOCK = re.compile(r"(?:<!-- needs: (?P<needs>[a-z, ]+) -->\n)?```console\n(?P<body>.*?)```", re.DOTALL)
MARKS = {"wheels", "toolkit", "slow", "gpu", "vllm", "browser", "torch"}


@dataclass(frozen=True)
class Block:
    """The commands of one block, each with the exit codes that the page gives it (``# exit 0 or 1``, else 0)."""

    page: str
    lines: tuple[tuple[str, frozenset[int]], ...]
    needs: frozenset[str]


def blocks() -> list[Block]:
    found = []
    for page in PAGES:
        for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
            needs = frozenset(filter(None, re.split(r"[, ]+", block["needs"] or "")))
            assert needs <= MARKS, f"{page.name}: {needs}"
            lines = []
            for line in block["body"].splitlines():
                if line.startswith("$ "):
                    command, _, comment = line[2:].partition("  # ")
                    codes = re.search(r"exit (\d+(?: or \d+)*)", comment)
                    allowed = frozenset(map(int, codes[1].split(" or "))) if codes else frozenset({0})
                    lines.append((command.strip(), allowed))
            found.append(Block(str(page.relative_to(ROOT)), tuple(lines), needs))
    return found


def _parameters() -> list[object]:
    return [
        pytest.param(
            block,
            id=f"{block.page}: {block.lines[0][0]}",
            marks=[getattr(pytest.mark, need) for need in sorted(block.needs)],
        )
        for block in blocks()
        if block.lines
    ]


def test_generated_parts_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_shows_commands() -> None:
    assert any(block.page == "README.md" for block in blocks())


def test_every_command_is_documented() -> None:
    told = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    commands = {path.stem for path in (ROOT / "src" / "ungate" / "cli").glob("[a-z]*.py")}
    for name in commands - {"app", "main", "options", "output"}:
        assert f"## ungate {name}" in told


@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", _parameters())
def test_the_commands_of_a_block_run_one_after_another(block: Block, tmp_path: Path) -> None:
    if "torch" in block.needs and find_spec("torch") is None:
        pytest.skip("no PyTorch here")
    environment = {**os.environ, "UNGATE_STATE_DIR": str(tmp_path / "state"), "NO_COLOR": "1", "COLUMNS": "100"}
    for line, codes in block.lines:
        words = shlex.split(line)
        assert words[0] == "ungate", f"{block.page} shows a command that is not ungate's in a console block: {line}"
        done = subprocess.run(
            [sys.executable, "-m", *words],
            capture_output=True,
            text=True,
            timeout=600,
            env=environment,
            cwd=tmp_path,
        )
        assert done.returncode in codes, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        assert "Traceback" not in done.stderr


@pytest.mark.wheels
@pytest.mark.timeout(600)
def test_the_output_shown_of_the_story_is_what_the_command_prints(story_site: Path, tmp_path: Path) -> None:
    """Each line of the README, where it is cut short up to there; how long the scan took aside."""
    command = [sys.executable, "-m", "ungate", "run", "flashinfer-allreduce-fusion", "--site", str(story_site)]
    done = subprocess.run(
        [*command, "--target", "sm_120", "--until", "patch"],
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "UNGATE_STATE_DIR": str(tmp_path / "state"), "NO_COLOR": "1"},
    )
    assert done.returncode == 0, done.stderr
    printed = _untimed(done.stdout.replace(str(story_site), "site")).splitlines()
    shown = re.search(r"<!-- output: story -->.*?```text\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert shown is not None
    lines = [line.removesuffix("…") for line in _untimed(shown[1]).splitlines() if line.strip() not in ("", "…")]
    assert len(lines) > 20
    assert [line for line in lines if not any(each.startswith(line) for each in printed)] == []


def _untimed(text: str) -> str:
    return re.sub(r"\b\d+\.\d+ s\b", "N s", text)
