"""What goes to stdout and what goes to stderr.

stdout carries the result: text for a person, or one JSON document. stderr carries progress and
errors. Colour is used only on a terminal and never when ``NO_COLOR`` is set (rich honours it).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from ungate.cli._json import indented
from ungate.host.progress import Report, silent
from ungate.plain import plain

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["begun", "document", "notes", "paper", "plain", "progress"]

_FIRST_S, _SELDOM_S = 3.0, 10.0  # before the first plain line, and between two
begun = Event()  # set once a document stands on stdout, where there is to be one and not two
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
    text = indented(value)
    begun.set()
    sys.stdout.write(text)
    sys.stdout.write(os.linesep)


def _plainly() -> Report:
    """Writes how far it is as a line of its own: nothing in the first seconds, then seldom, since a log keeps it."""
    told = time.monotonic() - _SELDOM_S + _FIRST_S

    def report(what: str, done: int = 0, total: int = 0) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= _SELDOM_S:
            told = now
            sys.stderr.write(f"{what}: {done} of {total}\n" if total else f"{what}\n")
            sys.stderr.flush()

    return report


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Report]:
    """A progress line on stderr while the block runs; where stderr is no terminal, a plain line now and then. Silent
    with ``quiet``."""
    if quiet:
        yield silent
        return
    if not sys.stderr.isatty():
        yield _plainly()
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24), TimeElapsedColumn())
    with Progress(*columns, console=notes(), transient=True) as bar:
        task = bar.add_task("", total=None)

        def report(what: str, done: int = 0, total: int = 0) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield report
