"""What goes to stdout and what goes to stderr.

stdout carries the result: text for a person, or one JSON document. stderr carries progress and
errors. Colour is used only on a terminal and never when ``NO_COLOR`` is set (rich honours it).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ungate.cli._json import indented
from ungate.host.progress import Report, silent
from ungate.plain import plain

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["document", "notes", "paper", "plain", "progress"]

_UNWRAPPED = 10_000  # a pipe has no width: whoever reads it wraps


def paper() -> Console:
    """The console for the result, on stdout."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else _UNWRAPPED)


def notes() -> Console:
    """The console for progress and errors, on stderr."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, emoji=False, width=None if sys.stderr.isatty() else _UNWRAPPED)


def document(value: object) -> None:
    """Write one JSON document to stdout."""
    sys.stdout.write(indented(value))
    sys.stdout.write(os.linesep)


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Report]:
    """A progress line on stderr while the block runs; silent when stderr is no terminal or ``quiet``."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with Progress(*columns, console=notes(), transient=True) as bar:
        task = bar.add_task("", total=None)

        def report(what: str, done: int = 0, total: int = 0) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield report
