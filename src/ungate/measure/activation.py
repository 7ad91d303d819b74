"""Proof that the opened path ran in the candidate and did not run in the baseline.

A comparison of two arms that ran the same path measures noise. So "could not be proved" is a result of its own, and
what was observed is kept as evidence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ungate.measure import counters, kernels

__all__ = ["Activation", "Proof", "Reading", "prove", "read"]


_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # may stand within the words that are looked for


class Proof(StrEnum):
    """Whether the opened path is what ran."""

    PROVED = "proved"
    DISPROVED = "disproved"
    UNPROVED = "unproved"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one arm showed, for each way of the recipe's proof: True it ran, False it did not, None not known.

    ``evidence`` says in words what was seen, in the same order.
    """

    ways: Mapping[str, bool | None]
    evidence: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Activation:
    """The result for a pair of arms and the reason in one sentence."""

    proof: Proof
    evidence: str


def read(
    url: str,
    proof: Mapping[str, str],
    *,
    log: Path | None = None,
    metrics: str = "/metrics",
    trace: Path | None = None,
) -> Reading:
    """Look for the recipe's proof on a server that has been under load.

    ``proof`` maps ``counter`` to the name of a counter that only the opened path increases (``lab:fused_calls_total``),
    ``log`` to a regular expression for a line of this start's log, ``fallback`` to one for a line that is written only
    where the path is not taken, ``kernel`` and ``operator`` to regular expressions for the name of a kernel or of a
    PyTorch operator in a profiler trace below ``trace``. An unknown way, or one whose source is missing, reads as None.
    """
    ways: dict[str, bool | None] = {}
    evidence: dict[str, str] = {}
    for way, wanted in proof.items():
        match way:
            case "counter":
                ways[way], evidence[way] = _counter(url, metrics, wanted)
            case "log":
                ways[way], evidence[way] = _log(log, wanted)
            case "fallback":
                fell, evidence[way] = _log(log, wanted)
                ways[way] = None if fell is None else not fell
            case "kernel":
                ways[way], evidence[way] = _traced("kernel", kernels.launched(trace) if trace else {}, wanted)
            case "operator":
                ways[way], evidence[way] = _traced("operator", kernels.operators(trace) if trace else {}, wanted)
            case _:
                ways[way], evidence[way] = None, f"'{way}' is no way of proof that ungate knows"
    return Reading(ways, evidence)


def _counter(url: str, metrics: str, name: str) -> tuple[bool | None, str]:
    values = counters.read(url, metrics)
    if values is None:
        return None, f"{metrics} did not answer"
    if name not in values:
        return None, f"{metrics} has no {name}"
    return values[name] > 0, f"{name} is {values[name]:.0f}"


def _log(log: Path | None, pattern: str) -> tuple[bool | None, str]:
    try:
        lines = _COLOUR.sub("", log.read_text(errors="replace")).removesuffix("\n").split("\n") if log else None
    except OSError:
        lines = None
    if lines is None:
        return None, "there is no log to read"
    for number, line in enumerate(lines, 1):
        if re.search(pattern, line):
            return True, f"line {number} of the log: {line.strip()[:160]}"
    return False, f"none of {len(lines)} log lines has {pattern}"


def _traced(what: str, names: Mapping[str, int], pattern: str) -> tuple[bool | None, str]:
    if not names:
        return None, f"there is no profiler trace with {what}s"
    found = [name for name in names if re.search(pattern, name)]
    if found:
        return True, f"{names[found[0]]} calls of {found[0][:120]} in the trace"
    return False, f"none of {len(names)} {what}s in the trace has {pattern}"


def prove(baseline: Reading, candidate: Reading) -> Activation:
    """Proved when a way shows the path in the candidate and not in the baseline, and no way says otherwise.

    Disproved when the candidate is known not to have run it, or the baseline is known to have run it too.
    """
    for way in candidate.ways:
        if candidate.ways[way] is False:
            return Activation(Proof.DISPROVED, f"The candidate did not run the opened path: {candidate.evidence[way]}.")
        if baseline.ways.get(way) is True:
            return Activation(Proof.DISPROVED, f"The baseline ran the opened path too: {baseline.evidence[way]}.")
    for way, ran in candidate.ways.items():
        if ran and baseline.ways.get(way) is False:
            return Activation(
                Proof.PROVED,
                f"Candidate: {candidate.evidence[way]}; baseline: {baseline.evidence[way]}.",
            )
    if not candidate.ways:
        return Activation(Proof.UNPROVED, "The recipe names nothing that proves that the opened path ran.")
    seen = "; ".join(
        f"candidate: {candidate.evidence[way]}, baseline: {baseline.evidence.get(way, 'not read')}"
        for way in candidate.ways
    )
    return Activation(Proof.UNPROVED, f"Nothing shows which path ran: {seen}.")
