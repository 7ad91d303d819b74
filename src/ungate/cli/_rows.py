"""Rows for a reader: a table, or on a terminal that is too narrow for it each row in lines of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

__all__ = ["listed"]

_GAP, _INDENT = 2, 5
_LAST = 24  # columns that the last cell may be folded to before the table counts as too wide


def listed(
    headings: Sequence[str], rows: Sequence[Sequence[str | Text]], width: int, *, right: Sequence[str] = ()
) -> Iterator[RenderableType]:
    """The rows under their headings within ``width`` columns; those named in ``right`` end on the right."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [max([len(heading), *map(_width, column)]) for heading, *column in zip(headings, *cells, strict=True)]
    if sum(widths[:-1]) + _GAP * len(widths) + min(widths[-1], _LAST) <= width:
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
        for heading in headings:
            table.add_column(heading, overflow="fold", justify="right" if heading in right else "left")
        for row in cells:
            table.add_row(*row)
        yield table
        return
    for row in cells:
        first = Text()
        rest = [cell for cell in row if cell.plain]
        while rest and len(first) + _width(rest[0]) <= width and "\n" not in rest[0].plain:
            first.append_text(rest.pop(0)).append(" " * _GAP)
        first.rstrip()
        if first:
            yield first
        for cell in rest:
            yield Padding(cell, (0, 0, 0, _INDENT if first else 0), expand=False)


def _width(cell: Text) -> int:
    return max((line.cell_len for line in cell.split()), default=0)
