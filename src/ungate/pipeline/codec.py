"""Records to JSON and back to equal records, so that a run can go on in another process.

Reading goes by the declared types alone: nothing in a file can name a class, let alone run code.
"""

from __future__ import annotations

import base64
import dataclasses
import types
import typing
from collections.abc import Hashable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

__all__ = ["pack", "revised", "unpack"]

T = TypeVar("T")


def pack(value: object) -> Any:
    """``value`` in JSON types; a mapping becomes a list of pairs, since its keys may be records."""
    match value:
        case None | bool() | int() | float() | str() if not isinstance(value, Enum):
            return value
        case Enum():
            return value.value
        case Path():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return [[pack(key), pack(item)] for key, item in value.items()]
        case list() | tuple():
            return [pack(item) for item in value]
        case set() | frozenset():
            return sorted((pack(item) for item in value), key=repr)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: pack(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no form in a step's file")


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    """The types of a record's fields; some modules import a type for the checker only, to start fast."""
    from ungate.host.facts import HostFacts
    from ungate.host.packages import Package
    from ungate.judge import Guard, Plan
    from ungate.measure.telemetry import Window
    from ungate.patch.overlay import Overlay

    known = {each.__name__: each for each in (HostFacts, Package, Guard, Plan, Overlay, Window)}
    return typing.get_type_hints(cast(type[Any], kind), localns=known)


def unpack(kind: type[T], value: Any) -> T:
    """What :func:`pack` was given, read as ``kind``; TypeError, ValueError or LookupError where it does not fit."""
    return cast(T, _read(kind, value))


def revised(record: T, fields: Mapping[str, Any]) -> T:
    """``record`` with the fields of a JSON object, each read as its declared type."""
    hints = _hints(cast(Hashable, type(record)))
    return cast(T, dataclasses.replace(cast(Any, record), **{k: _read(hints[k], v) for k, v in fields.items()}))


def _read(kind: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        if value is None and type(None) in arguments:
            return None
        others = [each for each in arguments if each is not type(None)]
        return _read(others[0], value) if len(others) == 1 else value
    if kind is Any or kind is object:
        return value
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_read(arguments[0], item) for item in value)
        return tuple(_read(each, item) for each, item in zip(arguments, value, strict=True))
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, Mapping):
            key, item = arguments
            return {_read(key, first): _read(item, second) for first, second in value}
        read = [_read(arguments[0], item) for item in value]
        return frozenset(read) if issubclass(origin, frozenset) else origin(read) if issubclass(origin, set) else read
    if dataclasses.is_dataclass(kind):
        hints = _hints(cast(Hashable, kind))
        return cast(type, kind)(**{name: _read(hints[name], item) for name, item in value.items()})
    if issubclass(kind, bytes):
        return base64.b64decode(value, validate=True)
    if issubclass(kind, Enum | Path):
        return kind(value)
    if value is not None and not isinstance(value, kind) and not (kind is float and isinstance(value, int)):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
