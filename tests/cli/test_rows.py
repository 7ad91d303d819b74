"""A table that does not fit is told in lines; no word of it is cut or lost."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from ungate.cli._rows import listed

HEADINGS = ("run", "started", "recipe", "verdict", "worth trying again")
ROWS: list[tuple[str | Text, ...]] = [
    (
        "1",
        "2026-11-30 10:11",
        "flashinfer-allreduce-fusion",
        Text("c1-i1024-o256 inconclusive +2.5 %"),
        "another driver",
    ),
    ("12", "2026-11-30 10:12", "mine", Text("c1-i1 revert -7 %\nc2-i1 keep +7 %"), ""),
]


def _printed(width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    for part in listed(HEADINGS, ROWS, width):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_a_table_where_there_is_room() -> None:
    head, first, *others = _printed(140)
    assert head.split() == " ".join(HEADINGS).split() and first.endswith("another driver")
    assert len(others) == 2


@pytest.mark.parametrize("width", [40, 60, 80])
def test_lines_where_there_is_none(width: int) -> None:
    lines = _printed(width)
    assert all(len(line) <= width for line in lines)
    words = [word for line in lines for word in line.split()]
    told = [str(cell) for row in ROWS for cell in row]
    assert words == " ".join(told).split()


def test_no_rows_are_no_fault() -> None:
    assert len(list(listed(HEADINGS, [], 200))) == 1
