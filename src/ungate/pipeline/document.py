"""A run as one JSON document: what ``run --json`` prints, what the run folder keeps, what the report is made from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import ungate
from ungate.model import Arm, Task
from ungate.pipeline.ending import early_ends
from ungate.pipeline.records import Records, Request
from ungate.plain import chain, gate, plain

__all__ = ["document"]


def _arm(arm: Arm) -> dict[str, object]:
    """An arm with the variables that it changes; the rest of its environment is the user's and may hold keys."""
    changed = {name: value for name, value in arm.environment.items() if os.environ.get(name) != value}
    return {
        "name": arm.name,
        "environment": changed,
        "arguments": list(arm.arguments),
        "series": arm.series,
        "command": list(arm.command),
    }


def document(
    request: Request, records: Records, tasks: Sequence[Task], following: Sequence[str], *, started: str, ended: str
) -> dict[str, Any]:
    """Everything the run found, in JSON types; a stage that did not run leaves its part null or empty."""
    series = records.series
    return {
        "ungate": ungate.__version__,
        "recipe": {"name": request.recipe.name, "summary": request.recipe.summary, "metric": request.recipe.metric},
        "target": str(request.target),
        "started": started,
        "ended": ended,
        "folder": str(request.folder),
        "command": list(request.command),
        "packages": [{"name": p.name, "version": p.version, "root": str(p.root)} for p in records.packages],
        "host": plain(records.facts),
        "scan": None
        if records.scan is None
        else {
            "gates": len(records.scan.gates),
            "files": records.scan.files,
            "seconds": round(records.scan.seconds, 3),
            "unread": plain(records.scan.unread),
        },
        "chain": None if records.chain is None else chain(records.chain),
        "findings": None if records.chain is None else plain(records.findings),
        "elsewhere": plain(records.elsewhere),
        "series": None
        if series is None
        else {
            "name": series.name,
            "digest": series.digest,
            "edits": [
                {
                    "file": edit.file,
                    "gate": edit.gate,
                    "old": plain(edit.old),
                    "new": plain(edit.new),
                    "admits": plain(edit.admits),
                    "riders": list(edit.riders),
                    "why": edit.why,
                }
                for edit in series.edits
            ],
            "before": dict(series.before),
            "after": dict(series.after),
            "refused": [[gate(each, request.target), why] for each, why in series.refused],
        },
        "overlay": None if records.overlay is None else str(records.overlay.root),
        "diff": records.diff,
        "pristine": dict(records.pristine),
        "artifacts": plain(records.artifacts),
        "arms": [_arm(arm) for arm in records.arms],
        "guards": plain(records.guards),
        "plan": plain(records.plan),
        "starts": plain(records.starts),
        "early": early_ends(records.starts),
        "samples": plain(records.samples),
        "telemetry": plain(records.telemetry),
        "verdicts": plain(records.verdicts),
        "phases": plain(records.phases),
        "policy": plain(records.policy),
        "ablations": plain(records.ablations),
        "cause": records.cause,
        "stopped": records.stopped,
        "tasks": plain(tuple(tasks)),
        "next": list(following),
        "report": None if records.page is None else str(records.page),
    }
