"""Read a recipe from TOML: one of ungate's own by its name, or a file by its path."""

from __future__ import annotations

import difflib
import os
import tomllib
from dataclasses import replace
from pathlib import Path

from ungate.errors import Refusal
from ungate.model import Recipe

__all__ = ["load", "names", "packages"]

_FOLDER = Path(__file__).parent
_LARGEST = 1 << 20  # bytes; a recipe is a page of text


def names() -> tuple[str, ...]:
    """The recipes that come with ungate, in alphabetical order."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def packages() -> frozenset[str]:
    """The distributions that ungate's own recipes are about; read without checking the rest of each recipe."""
    found: set[str] = set()
    for name in names():
        listed = _table(_FOLDER / f"{name}.toml").get("packages")
        found.update(each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str))
    return frozenset(found)


def load(name_or_path: str | Path) -> Recipe:
    """A recipe by name (``flashinfer-allreduce-fusion``) or from a TOML file.

    Refusal for a name that does not exist, for a file that cannot be read or is no TOML, and for one whose
    fields are missing, unknown or of the wrong kind: then all of them are named.
    """
    path = _path(str(name_or_path))
    table = _table(path)
    from ungate.recipes.schema import problems, recipe

    found = problems(table)
    if found:
        count = "one error" if len(found) == 1 else f"{len(found)} errors"
        raise Refusal(
            f"The recipe {path} has {count}: {'; '.join(found)}.",
            f"Compare it with one that works: {_FOLDER / names()[0]}.toml",
        )
    return replace(recipe(table), file="" if path.parent == _FOLDER else str(path.absolute()))


def _path(text: str) -> Path:
    if text in names():
        return _FOLDER / f"{text}.toml"
    path = Path(text).expanduser()
    if text.endswith(".toml") or os.sep in text:
        return path
    near = difflib.get_close_matches(text, names(), 1, 0.5)
    known = ", ".join(names())
    raise Refusal(
        f"There is no recipe named '{text}'.",
        f"Did you mean {near[0]}? The recipes are: {known}." if near else f"The recipes are: {known}.",
    )


def _table(path: Path) -> dict[str, object]:
    again = "Check the path and its permissions, then run the command again."
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
    except OSError as error:
        raise Refusal(f"The recipe {path} could not be read: {error.strerror or error}.", again) from error
    if len(data) > _LARGEST:
        raise Refusal(f"The recipe {path} is larger than {_LARGEST >> 20} MiB, so it is no recipe.", again)
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Refusal(
            f"The recipe {path} is not UTF-8 text (byte {error.start}).",
            "Save it as UTF-8, then run the command again.",
        ) from error
    except (ValueError, RecursionError) as error:  # more than tomllib's own: endless numbers, endless nesting
        raise Refusal(
            f"The recipe {path} is not valid TOML: {error}.", "Mend that place, then run the command again."
        ) from error
