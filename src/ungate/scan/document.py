"""The scan as the JSON document that other tools read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ungate.model import KNOWN_ARCHS, Gate, ScanResult, Status, Target
from ungate.plain import gate as record

__all__ = ["scan_document", "shown", "status"]


def status(gate: Gate, target: Target | None) -> Status:
    """What a gate does to the target; unknown where no target is given."""
    return gate.status(target) if target is not None else Status.UNKNOWN


def shown(gates: Iterable[Gate], target: Target | None, *, vendored: bool, only: str | None) -> list[Gate]:
    """The gates to print: without third-party trees unless asked for, and only the open or closed ones if asked."""
    return [
        gate
        for gate in gates
        if (vendored or not gate.vendored) and (only is None or status(gate, target).value == only)
    ]


def _gate(gate: Gate, target: Target | None) -> dict[str, object]:
    made = record(gate, target or Target(KNOWN_ARCHS[0]))
    return made if target is not None else {**made, "status": Status.UNKNOWN.value}


def scan_document(result: ScanResult, gates: Sequence[Gate], target: Target | None) -> dict[str, Any]:
    """``target``, ``archs``, ``gates``, ``unread`` and ``stats``; ``passes`` is null where it cannot be known."""
    return {
        "target": None if target is None else str(target),
        "archs": list(KNOWN_ARCHS),
        "gates": [_gate(gate, target) for gate in gates],
        "unread": [{"file": each.file, "reason": each.reason} for each in result.unread],
        "stats": {
            "files": result.files,
            "read": result.read,
            "seconds": round(result.seconds, 3),
            "cached": result.cached,
            "vendored": result.vendored,
        },
    }
