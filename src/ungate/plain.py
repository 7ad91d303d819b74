"""Records as JSON types."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

from ungate.model import ArchSet, Chain, Gate, Hop, Target

__all__ = ["chain", "counted", "gate", "plain"]


def counted(number: int, noun: str, many: str = "") -> str:
    """A number with its noun, as a sentence has it: ``1 file``, ``2 files``; ``many`` where an s does not do."""
    return f"{number} {noun if number == 1 else many or noun + 's'}"


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


def gate(record: Gate, target: Target) -> dict[str, object]:
    """One gate as ``scan --json`` prints it; ``reached`` only where a feature was named."""
    shown: dict[str, object] = {
        "id": record.id,
        "pattern": record.pattern,
        "package": record.package,
        "version": record.version,
        "file": record.file,
        "line": record.line,
        "end_line": record.end_line,
        "kind": record.kind,
        "condition": record.condition,
        "passes": plain(record.passes),
        "status": record.status(target).value,
        "role": record.role,
        "vendored": record.vendored,
        "note": record.note,
    }
    if record.reached is not None:
        shown["reached"] = record.reached.value
    return shown


def _hop(record: Hop, target: Target) -> dict[str, object]:
    return {
        "kind": record.kind,
        "file": record.file,
        "line": record.line,
        "symbol": record.symbol,
        "verified": record.verified,
        "note": record.note,
        "tests": list(record.tests),
        "blocker": record.blocker,
        "gates": [gate(each, target) for each in record.gates],
    }


def chain(record: Chain) -> dict[str, object]:
    """A chain as ``why --json`` and ``run --json`` print it."""
    return {
        "feature": record.feature,
        "hops": [_hop(hop, record.target) for hop in record.hops],
        "apart": [_hop(hop, record.target) for hop in record.apart],
        "notes": list(record.notes),
    }
