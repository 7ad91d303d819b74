"""``ungate probe``: survey, measurement in turn, decision; and the document that holds all of it."""

from __future__ import annotations

import datetime
import difflib
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import ungate
from ungate.errors import Refusal
from ungate.host import files, gpus
from ungate.host.environment import Environment
from ungate.host.gpus import Link
from ungate.host.progress import Report
from ungate.judge import design
from ungate.judge.fastest import Choice, choose
from ungate.plain import plain
from ungate.probe.measuring import measure
from ungate.probe.records import Cell, Entrant, Measured, Request, State, Survey
from ungate.probe.survey import survey

__all__ = ["FORMAT", "MIN_EFFECT", "Probe", "document", "probe", "save"]

FORMAT = 1
MIN_EFFECT = 0.03
"""By how much a candidate has to be faster than another before they are told apart, as in ungate-allreduce's tuner."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Everything that one probe found. ``policy`` holds a choice for each size, None where nothing was verified."""

    request: Request
    survey: Survey
    measured: tuple[Measured, ...]
    policy: tuple[tuple[int, Choice | None], ...]
    links: tuple[Link, ...]
    driver: str | None
    date: str

    @property
    def ran(self) -> bool:
        """Whether any candidate has a verified time."""
        return any(choice is not None for _, choice in self.policy)


def probe(env: Environment, request: Request, report: Report) -> Probe:
    """Run it. Refusal where no candidate can run at all, with the reasons of all."""
    report("asking the serving Python what it has")
    found = _asked_for(survey(env, request), request.names)
    able = [entrant.name for entrant in found.entrants if not entrant.unavailable]
    if not able:
        reasons: dict[str, list[str]] = {}
        for each in found.entrants:
            reasons.setdefault(each.unavailable, []).append(each.name)
        told = " ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
        raise Refusal(
            f"No allreduce candidate can run in {env.python or 'this Python'}. {told}",
            "Name the Python that serves: ungate probe allreduce --python /path/to/serving/python",
        )
    sequence = design.order(request.rounds, able)
    order = {number: sequence[number * len(able) :][: len(able)] for number in range(request.rounds)}
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    measured = measure(env, found, request, order, report)
    reading = gpus.read() if found.facts.device == "cuda" else gpus.Reading()
    baselines = [each.name for each in found.entrants if each.baseline and each.device == found.facts.device]
    policy = tuple((size, _choice(measured, size, baselines[0])) for size in request.sizes)
    return Probe(request, found, measured, policy, reading.links, reading.driver, date)


def _asked_for(found: Survey, names: Sequence[str]) -> Survey:
    """The survey with the candidates that were named; with the baseline, which the others are compared with."""
    known = [entrant.name for entrant in found.entrants]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            raise Refusal(
                f"There is no allreduce candidate {name}.",
                f"Did you mean {near[0]}? See all: ungate probe allreduce --help"
                if near
                else f"There are: {', '.join(known)}.",
            )

    def wanted(entrant: Entrant) -> bool:
        return not names or entrant.name in names or (entrant.baseline and entrant.device == found.facts.device)

    return replace(found, entrants=tuple(filter(wanted, found.entrants)))


def _choice(measured: Sequence[Measured], size: int, baseline: str) -> Choice | None:
    """Among the candidates that were right at every size and took this one."""
    times = {
        each.entrant.name: cell.us
        for each in measured
        if each.state is State.OK
        for cell in each.cells
        if cell.size == size and cell.state is State.OK and cell.us
    }
    return choose(times, baseline, min_effect=MIN_EFFECT)


def document(found: Probe) -> dict[str, object]:
    """The document that ``--json`` prints and ``--out`` keeps; ``format`` names its form."""
    facts = found.survey.facts
    return {
        "format": FORMAT,
        "kind": "allreduce-probe",
        "ungate": ungate.__version__,
        "measured": found.date,
        "fingerprint": {
            "gpus": list(facts.gpus),
            "archs": list(facts.capabilities),
            "driver": found.driver,
            "torch": facts.torch,
            "cuda": facts.cuda,
            "nccl": facts.nccl,
            "python": facts.python,
            "packages": dict(facts.modules),
            "settings": dict(facts.settings),
            "peer_access": facts.peer,
            "links": [plain(link) for link in found.links],
            "architecture": facts.architecture,
            "cores": facts.cores,
        },
        "device": facts.device,
        "world": facts.world,
        "dtype": found.request.dtype,
        "rounds": found.request.rounds,
        "replays": found.request.replays,
        "timeout_s": found.request.timeout_s,
        "candidates": [_candidate(each) for each in found.measured],
        "policy": [_row(size, choice) for size, choice in found.policy],
    }


def _candidate(each: Measured) -> dict[str, object]:
    entrant = each.entrant
    return {
        "name": entrant.name,
        "what": entrant.what,
        "how": entrant.how,
        "environment": dict(entrant.environment),
        "baseline": entrant.baseline,
        "state": each.state.value,
        "reason": each.reason,
        "sizes": [_cell(cell) for cell in each.cells],
        "notes": list(each.notes),
        "log": list(each.log),
    }


def _cell(cell: Cell) -> dict[str, object]:
    timed = cell.us if cell.state is State.OK else ()  # the times of wrong sums say nothing
    quarters = statistics.quantiles(timed, n=4) if len(timed) > 1 else [None, None, None]
    return {
        "size": cell.size,
        "state": cell.state.value,
        "reason": cell.reason,
        "us": statistics.median(timed) if timed else None,
        "us_quartiles": [quarters[0], quarters[2]],
        "us_rounds": list(timed),
        "graph": cell.graph,
        "calls": cell.calls,
        "checks": cell.checks,
        "error": cell.error,
    }


def _row(size: int, choice: Choice | None) -> dict[str, object]:
    if choice is None:
        return {"size": size, "decision": "unknown", "use": None, "tied": [], "reason": "nothing was verified"}
    return {
        "size": size,
        "decision": choice.use if choice.clear else "no difference",
        "use": choice.use,
        "tied": list(choice.tied),
        "reason": choice.reason,
        "ratio": choice.ratio,
        "low": choice.low,
        "high": choice.high,
        "level": choice.level,
    }


def save(found: Probe, path: Path) -> None:
    """Write the document in one step."""
    files.write(path, (json.dumps(document(found), indent=1) + "\n").encode())
