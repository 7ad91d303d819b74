"""One file a form of gate; a file is registered by being in this folder.

An edit is a function from one place to the replacements that open it there::

    @opens(Form.INT_LIST)
    def open_list(place: Place) -> Opening: ...

It adds :attr:`Place.wanted` to what passes, and the smallest set beyond it that the form can express;
``Opening.admits`` names all of that. What cannot be written safely raises :class:`Unopenable` with the reason in words.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ungate.model import Form, Gate

__all__ = ["Entry", "Opening", "Place", "Replacement", "Unopenable", "opening", "opens"]


class Unopenable(Exception):
    """This gate cannot be edited safely; the text is the reason, a clause without a full stop."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What of a size table's new entry is kept: these world sizes (empty: all), and at most ``limit`` bytes."""

    world_sizes: frozenset[int] = frozenset()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """One gate, the content of its file, and the archs that shall pass there in addition.

    With ``when``, they pass only while that expression holds (see :mod:`ungate.patch.edits._restriction`); with
    ``entry``, a table's new row holds no more than that.
    ``root`` is the folder that ``gate.file`` is relative to: where the packages of the series lie.
    """

    gate: Gate
    content: bytes
    wanted: frozenset[int]
    root: Path
    roots: tuple[Path, ...] = ()
    when: str = ""
    entry: Entry | None = None

    @property
    def text(self) -> bytes:
        start, end = self.gate.span
        return self.content[start:end]

    @property
    def missing(self) -> frozenset[int]:
        """The wanted archs that the gate holds back so far."""
        return self.wanted - self.gate.passes.yes


@dataclass(frozen=True, slots=True)
class Replacement:
    """Bytes [start, end) of the file become ``new``; ``why`` is a clause for the reader of the diff."""

    start: int
    end: int
    new: bytes
    why: str = ""


@dataclass(frozen=True, slots=True)
class Opening:
    """What to write, and which archs pass because of it."""

    replacements: tuple[Replacement, ...]
    admits: frozenset[int]


_Open = Callable[[Place], Opening]
_REGISTRY: dict[Form, _Open] = {}


def opens(*forms: Form) -> Callable[[_Open], _Open]:
    """Register the decorated function as the edit of these forms."""

    def register(function: _Open) -> _Open:
        for form in forms:
            _REGISTRY[form] = function
        return function

    return register


@functools.cache
def _registry() -> Mapping[Form, _Open]:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _REGISTRY


def opening(place: Place) -> Opening:
    """The replacements that let ``place.wanted`` through; Unopenable where there is no edit for the gate's form."""
    if place.when and place.gate.form not in (Form.PYTHON_EXPRESSION, Form.HOST_EXPRESSION):
        raise Unopenable(f"a gate of the form '{place.gate.form}' has no room for the condition '{place.when}'")
    if place.entry and place.gate.form is not Form.TABLE:
        raise Unopenable(f"a gate of the form '{place.gate.form}' is no table of sizes")
    found = _registry().get(place.gate.form)
    if found is None:
        raise Unopenable(place.gate.note or f"no edit is known for a gate of the form '{place.gate.form}'")
    return found(place)
