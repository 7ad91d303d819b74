"""What goes to stdout and what goes to stderr.

stdout carries the result: text for a person, or one JSON document. stderr carries progress and
errors. Colour is used only on a terminal and never when ``NO_COLOR`` is set (rich honours it).
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from ungate.host.progress import Report, silent
from ungate.model import ArchSet, Target

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["document", "notes", "paper", "plain", "progress"]


def paper() -> Console:
    """The console for the result, on stdout."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty(), emoji=False)


def notes() -> Console:
    """The console for progress and errors, on stderr."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty(), emoji=False)


def plain(value: object) -> object:
    """A record as JSON types: dataclasses to objects, paths and enums to strings, ArchSet to a list or null."""
    match value:
        case ArchSet():
            return list(value) if value.decided else None
        case Target() | Path():
            return str(value)
        case Enum():
            return value.value
        case bytes():
            return value.decode("utf-8", "replace")
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case set() | frozenset():
            return sorted(str(plain(item)) for item in value)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return value


def document(value: object) -> None:
    """Write one JSON document to stdout."""
    json.dump(plain(value), sys.stdout, indent=1)
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
