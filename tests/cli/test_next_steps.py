"""What a text of the product tells to run is there to be run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import ungate
from ungate.cli.app import app

SOURCE = Path(ungate.__file__).parent
FILES = sorted(p for p in SOURCE.rglob("*") if p.suffix in {".py", ".toml", ".html"} and "lab" not in p.parts)
TOLD = re.compile(r"(?:[:`]|(?:Run|run) )\s*ungate ((?:[a-z]+)(?: [a-z]+)?)")


def _texts(path: Path) -> Iterator[str]:
    """The strings of a module but its docstrings; all of another file."""
    text = path.read_text("utf-8")
    if path.suffix != ".py":
        yield text
        return
    tree = ast.parse(text)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def _told() -> list[tuple[str, str]]:
    found = ((path, words) for path in FILES for text in _texts(path) for words in TOLD.findall(text))
    return sorted({(str(path.relative_to(SOURCE)), words) for path, words in found})


def test_the_texts_are_found() -> None:
    assert len(_told()) > 40


@pytest.mark.parametrize(("file", "words"), _told())
def test_every_command_that_a_text_names_exists(file: str, words: str) -> None:
    first, *rest = words.split()
    context = click.Context(app)
    command = app.get_command(context, first)
    assert command is not None, f"{file} names ungate {first}, which is no command"
    if isinstance(command, click.Group) and rest:
        assert command.get_command(context, rest[0]), f"{file} names ungate {words}, which is no command"
