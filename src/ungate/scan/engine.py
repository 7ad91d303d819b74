"""The scan: select the files, follow names between them, run the patterns, keep the answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ungate.host.packages import Package
from ungate.host.progress import Report, silent
from ungate.model import Gate, ScanResult, Unread
from ungate.scan import cache
from ungate.scan.select import SUFFIXES, Source, select
from ungate.scan.workers import crew

if TYPE_CHECKING:
    from ungate.scan.shard import Found, Shard

__all__ = ["scan"]

_ROUNDS = 6
_FEW = 40


def _shares(sources: list[Source], jobs: int) -> list[list[Source]]:
    """Shares of about the same size; a file's share depends on its name and size alone."""
    shares: list[list[Source]] = [[] for _ in range(jobs)]
    weights = [0] * jobs
    for source in sorted(sources, key=lambda each: (-each.stamp[0], each.file)):
        index = weights.index(min(weights))
        shares[index].append(source)
        weights[index] += source.stamp[0] * (2 if source.language == "python" else 1) + 2000
    return shares


def _make(share: tuple[list[Source], list[tuple[str, str]], bool]) -> Shard:
    from ungate.scan.shard import Shard

    return Shard(*share)


def scan(
    packages: Sequence[Package],
    *,
    jobs: int = 2,
    use_cache: bool = True,
    report: Report | None = None,
    vendored: bool = False,
) -> ScanResult:
    """Every gate of the packages; third-party trees in them are searched only with ``vendored``.

    The macros of third-party headers count in any case, and a name that leads into such a tree is followed.

    ``file`` of a gate is relative to its package's root. ``jobs`` processes read side by side; with ``use_cache`` an
    answer for the same files (by path, size and times) is taken from the cache folder. Raises Refusal.
    """
    say = report or silent
    begun = time.monotonic()
    say("listing files")
    sources, missing = select(packages, SUFFIXES)
    kept = cache.key(sources, vendored=vendored) if use_cache else ""
    if use_cache and (ready := cache.load(kept)) is not None:
        return replace(ready, seconds=time.monotonic() - begun)
    # here, so that processes that are forked have it all
    from ungate.scan.shard import prepare
    from ungate.source.cuda.reader import READER

    prepare()
    everything = [(source.root, source.file) for source in sources if source.language == "python"]
    count = 1 if len(sources) < _FEW else max(1, jobs)
    shares = [(share, everything, vendored) for share in _shares(sources, count)]
    with crew(_make, shares) as working:
        say("reading files", 0, len(sources))
        surveyed = working.call("survey")
        index = READER.settle(fact for facts, _ in surveyed for fact in facts)
        names = frozenset().union(*(names for _, names in surveyed))
        for _ in range(_ROUNDS):
            if not names:
                break
            say("following names")
            names = frozenset().union(*working.call("extend", names))
        say("looking for gates")
        found: list[Found] = working.call("find", index)
    gates: list[Gate] = sorted((gate for part in found for gate in part.gates), key=lambda gate: (gate.file, gate.line))
    unread: list[Unread] = sorted(
        [*missing, *(each for part in found for each in part.unread)], key=lambda each: each.file
    )
    answer = ScanResult(
        gates=tuple(gates),
        unread=tuple(unread),
        files=len(sources),
        read=sum(part.read for part in found),
        vendored=None if not vendored and any(source.vendored for source in sources) else 0,
        seconds=time.monotonic() - begun,
    )
    if use_cache:
        cache.store(kept, answer)
    return answer
