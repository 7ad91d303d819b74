"""Options that several commands share, spelled once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["environment_options", "json_option", "target_option"]

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """``--json``, passed to the command as ``as_json``."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON document on stdout and nothing else there; an error is one with error, next and exit.",
    )(command)


def target_option(command: F) -> F:
    """``--target ARCH``, passed as ``target``: text or None."""
    return click.option("--target", metavar="ARCH", help="sm_120, sm_120a, 12.0 or 120; without it the local GPU's.")(
        command
    )


def environment_options(command: F) -> F:
    """``--site DIR`` and ``--python PATH``, passed as ``site`` and ``python``: Path or None."""
    site = click.option(
        "--site",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Work on the packages in this folder (a site-packages folder, or what pip --target filled).",
    )
    python = click.option(
        "--python",
        metavar="PATH",
        type=click.Path(path_type=Path),
        help="Work on the packages that this interpreter imports.",
    )
    return site(python(command))
