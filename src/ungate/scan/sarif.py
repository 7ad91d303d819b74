"""Gates as a SARIF 2.1.0 log (OASIS Static Analysis Results Interchange Format), for code review tools and CI."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import ungate
from ungate.model import Gate, Status, Target, Unread
from ungate.scan.document import status

__all__ = ["SCHEMA", "sarif_log"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVEL = {Status.CLOSED: "warning", Status.OPEN: "note", Status.UNKNOWN: "none"}


def _rule(pattern: str, kind: str) -> dict[str, Any]:
    return {
        "id": pattern,
        "name": "".join(word.capitalize() for word in pattern.split("-")),
        "shortDescription": {"text": f"Architecture gate: {kind}"},
        "properties": {"kind": kind},
    }


def _result(gate: Gate, target: Target | None, rules: dict[str, int]) -> dict[str, Any]:
    state = status(gate, target)
    aim = f" {target} is {state.value}." if target is not None else ""
    return {
        "ruleId": gate.pattern,
        "ruleIndex": rules[gate.pattern],
        "level": _LEVEL[state],
        "kind": "fail" if state is Status.CLOSED else "pass" if state is Status.OPEN else "review",
        "message": {"text": f"`{gate.condition}` lets through: {gate.passes}.{aim}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _artifact(gate.file),
                    "region": {"startLine": gate.line, "endLine": max(gate.end_line, gate.line)},
                },
                **({"logicalLocations": [{"fullyQualifiedName": gate.symbol}]} if gate.symbol else {}),
            }
        ],
        "partialFingerprints": {"gateId/v1": gate.id},
        "properties": {
            "package": gate.package,
            "version": gate.version,
            "passes": list(gate.passes) if gate.passes.decided else None,
            "role": gate.role,
        },
    }


def _artifact(file: str) -> dict[str, str]:
    uri = quote(str(PurePosixPath(file)).encode("utf-8", "surrogateescape"))
    return {"uri": uri, "uriBaseId": "PACKAGES"}


def _notice(unread: Unread) -> dict[str, Any]:
    return {
        "level": "warning",
        "message": {"text": f"Not read: {unread.reason}."},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(unread.file)}}],
    }


def sarif_log(gates: Sequence[Gate], target: Target | None, unread: Sequence[Unread] = ()) -> dict[str, Any]:
    """One run: a rule a pattern, a result a gate; what is open for the target passes, what is closed fails.

    Files that could not be read are notifications of the run.
    """
    kinds = {gate.pattern: gate.kind for gate in sorted(gates, key=lambda each: each.pattern)}
    rules = {pattern: index for index, pattern in enumerate(kinds)}
    results = []
    for gate in gates:
        made = _result(gate, target, rules)
        if made["kind"] != "fail":
            made["level"] = "none"  # SARIF 2.1.0, 3.27.10: a result that does not fail has no level
        results.append(made)
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "ungate",
                        "semanticVersion": ungate.__version__,
                        "rules": [_rule(pattern, kind) for pattern, kind in kinds.items()],
                    }
                },
                "originalUriBaseIds": {"PACKAGES": {"description": {"text": "The folder that holds the packages."}}},
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": [*map(_notice, unread)]}],
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }
