"""What the ledger knows of the noise between two starts of the same server on this kind of machine.

Every run starts its baseline several times; two successive starts of it differ by noise alone, whatever became of the
candidate. An A/A run, in which both arms are the same, gives its candidate's starts as well.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ungate.host.facts import HostFacts
from ungate.model import Sample
from ungate.record.ledger import Ledger

__all__ = ["Spread", "machine", "spread"]

_MOST_RUNS = 20  # the newest: a machine changes


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of the log-ratio of two starts of the same arm, pooled over ``runs`` runs.

    ``degrees`` counts the differences that went in, each from two starts that no other difference uses.
    """

    value: float
    degrees: int
    runs: int


def machine(facts: HostFacts | None) -> str:
    """A name for this kind of machine: equal where processor, cores, memory, GPUs and driver are; empty if not read."""
    if facts is None:
        return ""
    there = facts.machine
    what = [
        there.processor,
        there.cores,
        None if there.memory is None else round(there.memory / 2**30),
        there.hypervisor,
        facts.driver,
        [gpu.name for gpu in facts.gpus],
    ]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


def spread(ledger: Ledger, *, machine: str, recipe: str, metric: str) -> Spread | None:
    """The spread in this machine's newest runs of ``recipe``; None where none has two baseline starts of a cell.

    The cells of one run share its starts and so its noise: they are averaged, and count as one.
    """
    squares: list[float] = []
    used = 0
    if not machine:
        return None
    for row in ledger.runs(recipe)[: 5 * _MOST_RUNS]:
        if row.machine != machine or used == _MOST_RUNS:
            continue
        same = row.fingerprint.get("same_arms") is True
        found = list(_differences(ledger.samples_of(row.id), metric, both=same))
        used += bool(found)
        squares += found
    if not squares:
        return None
    return Spread(math.sqrt(math.fsum(squares) / len(squares)), len(squares), used)


def _differences(samples: Sequence[Sample], metric: str, *, both: bool) -> Iterator[float]:
    """Squared log-ratios of successive starts of one arm, no start used twice, each the mean over the cells."""
    for arm in ("baseline", "candidate") if both else ("baseline",):
        by_start: dict[int, dict[str, float]] = {}
        for sample in samples:
            if sample.arm == arm and sample.metric == metric and sample.value:
                by_start.setdefault(sample.start, {})[str(sample.cell)] = sample.value
        starts = [values for _, values in sorted(by_start.items())]
        for first, second in zip(starts[::2], starts[1::2], strict=False):
            logs = [math.log(second[cell] / first[cell]) ** 2 for cell in first.keys() & second.keys()]
            if logs:
                yield math.fsum(logs) / len(logs)
