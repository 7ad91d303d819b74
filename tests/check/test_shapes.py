"""The table of shapes of public reports names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs/design/check-and-the-public-reports.md"


def test_every_named_test_is_there() -> None:
    rows = [
        [cell.strip() for cell in line.split("|")[1:4]]
        for line in TABLE.read_text().splitlines()
        if "#" in line and line[0] == "|"
    ]
    assert len(rows) >= 40
    for report, test, why in rows:
        assert test != "-" or why, report
        if test != "-":
            file, name = test.split("::")
            assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), test
