"""What a package's Python comes to when its text is followed: plain values, and stand-ins for what is not followed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ungate.build.following.text import File

__all__ = ["BUILTINS", "Class", "Dotted", "Foreign", "Function", "Raised", "Record", "Return", "Unknown", "attribute"]


class Unknown(Exception):
    """A value that cannot be told from the text. Its message is what was in the way, in words."""


class Raised(Exception):
    """The package itself says no: it would raise, with this message."""


class Return(Exception):
    """A function's statement that returns; it never leaves the call."""

    def __init__(self, value: Any) -> None:
        self.value = value


_TYPES = re.compile(r"torch\.(?:u?int\d+|b?float\w*|bool|half|double|long|short|complex\w+)")


@dataclass(frozen=True, slots=True, eq=False)
class Dotted:
    """A name of a module that is not followed, known by its name alone.

    A type of PyTorch (``torch.bfloat16``) is a value of its own; of any other name nothing is known, and asking whether
    it is true or equal to something ends in :class:`Unknown`.
    """

    name: str

    @property
    def settled(self) -> bool:
        """Whether the name says all there is to know."""
        return _TYPES.fullmatch(self.name) is not None

    def __bool__(self) -> bool:
        if self.settled:
            return True
        raise Unknown(f"what {self.name} is is not known here")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dotted) and other.name == self.name:
            return True
        if self.settled and (not isinstance(other, Dotted) or other.settled):
            return False
        raise Unknown(f"whether {self.name} equals something else is not known here")

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a file; ``bound`` is the object it was looked up on, ``around`` the names where it was defined."""

    file: File
    node: ast.FunctionDef
    bound: object = None
    around: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Class:
    """A class of a file."""

    file: File
    node: ast.ClassDef

    def member(self, name: str) -> ast.stmt | None:
        """Its own statement that gives the name: a function, or a value in the class's body."""
        for statement in self.node.body:
            match statement:
                case ast.FunctionDef(name=own) if own == name:
                    return statement
                case ast.Assign(targets=[ast.Name(id=own)]) | ast.AnnAssign(target=ast.Name(id=own)) if own == name:
                    return statement
        return None

    @property
    def fields(self) -> tuple[str, ...]:
        """What a record class declares, in order."""
        return tuple(
            statement.target.id
            for statement in self.node.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        )


@dataclass(slots=True)
class Record:
    """An object of a :class:`Class`."""

    kind: Class
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A stand-in for an object that is not followed: its attributes are looked up by ``look``."""

    look: Callable[[str], Any]


BUILTINS: Mapping[str, Any] = {
    **{kind.__name__: kind for kind in (bool, dict, float, frozenset, int, list, set, str, tuple)},
    **{work.__name__: work for work in (abs, all, any, enumerate, len, max, min, range, repr, reversed, sorted, sum)},
    "isinstance": lambda value, kinds: any(
        _is(value, each) for each in (kinds if isinstance(kinds, tuple) else (kinds,))
    ),
    "map": map,
    "zip": zip,
}
"""Without effect on anything but their arguments."""


def _is(value: object, kind: object) -> bool:
    """``isinstance``, and that a name of PyTorch's is one of its types."""
    if isinstance(kind, type):
        return isinstance(value, kind)
    if isinstance(kind, Class):
        return isinstance(value, Record) and value.kind == kind
    if isinstance(kind, Dotted) and kind.name == "torch.dtype":
        return isinstance(value, Dotted) and value.settled
    raise Unknown(f"whether something is a {kind} is not known here")


_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset(name for name in dir(str) if not name.startswith("_")),
    list: frozenset({"append", "copy", "count", "extend", "index", "insert", "pop", "remove"}),
    tuple: frozenset({"count", "index"}),
    dict: frozenset({"copy", "get", "items", "keys", "pop", "setdefault", "update", "values"}),
    set: frozenset({"add", "copy", "difference", "discard", "intersection", "union", "update"}),
    Path: frozenset(
        {
            *("absolute", "as_posix", "exists", "is_absolute", "is_dir", "is_file", "joinpath", "name", "parent"),
            *("parents", "parts", "resolve", "stem", "suffix", "with_name", "with_suffix"),
        }
    ),
}
"""What may be asked of a value: nothing here writes outside of it or reads the content of a file."""


def attribute(value: object, name: str) -> Any:
    """An attribute of a plain value; Unknown where it is none that is allowed."""
    if value is dict and name == "fromkeys":
        return dict.fromkeys
    for kind, names in _METHODS.items():
        if isinstance(value, kind) and name in names:
            return getattr(value, name)
    raise Unknown(f"'.{name}' of {type(value).__name__} is not followed")
