"""The policy of a run: its verdicts with everything that they hold for, and the file that says so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ungate.host.files import write
from ungate.model import Cell, Decision, Place, Policy, PolicyRow
from ungate.pipeline.arms import CANDIDATE
from ungate.pipeline.records import Records, Request

__all__ = ["NAME", "policy", "tensor_parallel", "written"]

NAME = "policy.toml"
"""The file's name in the run folder."""

_OPTIONS = ("--tensor-parallel-size", "--tp-size", "--tp", "-tp")


def tensor_parallel(command: Sequence[str]) -> int | None:
    """The ranks of tensor parallelism that a server's command line names; None where it names none."""
    for place, word in enumerate(command):
        option, equals, value = word.partition("=")
        if option in _OPTIONS:
            given = value if equals else command[place + 1] if place + 1 < len(command) else ""
            return int(given) if given.isdecimal() and int(given) > 0 else None
    return None


def policy(request: Request, records: Records) -> Policy | None:
    """Where the candidate's path is worth using; None where nothing was decided, or the arms do not say it."""
    verdicts = [verdict for verdict in records.verdicts if verdict.arm == CANDIDATE]
    if not verdicts or request.same or request.swap:
        return None
    facts = records.facts
    phases = {
        (name, verdict.cell): verdict.decision
        for name, found in records.phases.items()
        for verdict in found
        if verdict.arm == CANDIDATE
    }
    return Policy(
        feature=request.recipe.name,
        target=str(request.target),
        rows=tuple(
            PolicyRow(
                cell=verdict.cell,
                decision=verdict.decision,
                reason=verdict.reason,
                ratio=verdict.ratio,
                low=verdict.low,
                high=verdict.high,
                prefill=_decided(phases, "prefill", verdict.cell),
                decode=_decided(phases, "decode", verdict.cell),
            )
            for verdict in verdicts
        ),
        place=Place(
            tensor_parallel(request.command),
            facts.peer_access if facts is not None else None,
            tuple(gpu.name or "unknown" for gpu in facts.gpus) if facts is not None else (),
        ),
        packages={package.name: package.version for package in records.packages},
        series=records.series.digest if records.series is not None else "",
        arguments=request.recipe.arguments,
        environment=request.recipe.environment,
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _decided(phases: dict[tuple[str, Cell], Decision], name: str, cell: Cell) -> Decision | None:
    return phases.get((name, cell))


def written(request: Request, records: Records) -> None:
    """Write the policy into the run folder."""
    if records.policy is not None:
        from ungate.judge.policy import dumps

        write(request.folder / NAME, dumps(records.policy).encode())
