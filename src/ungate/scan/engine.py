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


def _needed(sources: list[Source], files: frozenset[str], names: frozenset[str] | None) -> list[Source]:
    """What must be read for the gates of a few files: headers for macros, and Python files for names not known yet."""
    languages = {source.language for source in sources if source.file in files}
    return [
        source
        for source in sources
        if source.file in files or (source.language in languages and (source.language != "python" or names is None))
    ]


def _make(share: tuple[list[Source], list[tuple[str, str]], bool, frozenset[str] | None]) -> Shard:
    from ungate.scan.shard import Shard

    return Shard(*share)


def scan(
    packages: Sequence[Package],
    *,
    jobs: int = 2,
    use_cache: bool = True,
    report: Report | None = None,
    vendored: bool = False,
    files: frozenset[str] | None = None,
    names: frozenset[str] | None = None,
) -> ScanResult:
    """Every gate of the packages; third-party trees in them are searched only with ``vendored``.

    The macros of third-party headers count in any case, and a name that leads into such a tree is followed.

    ``file`` of a gate is relative to its package's root. ``jobs`` processes read side by side; with ``use_cache`` an
    answer for the same files (by path, size and times) is taken from the cache folder. Raises Refusal.

    With ``files`` (relative, as in a gate) only their gates are looked for, and the cache is left alone; they are
    those that a scan of everything finds there. ``names`` of an earlier result then spare reading the other Python
    files: what has been edited since must be among ``files``.
    """
    say = report or silent
    begun = time.monotonic()
    say("listing files")
    sources, missing = select(packages, SUFFIXES)
    kept = cache.key(sources, vendored=vendored) if use_cache and files is None else ""
    if kept and (ready := cache.load(kept)) is not None:
        return replace(ready, seconds=time.monotonic() - begun)
    # here, so that processes that are forked have it all
    from ungate.scan.shard import prepare
    from ungate.source.cuda.reader import READER

    prepare()
    everything = [(source.root, source.file) for source in sources if source.language == "python"]
    foreign = any(source.vendored for source in sources)
    if files is not None:
        missing = [each for each in missing if each.file in files]
        sources = _needed(sources, files, names)
    count = 1 if len(sources) < _FEW else max(1, jobs)
    shares = [(share, everything, vendored, files) for share in _shares(sources, count)]
    with crew(_make, shares) as working:
        say("reading files", 0, len(sources))
        surveyed = working.call("survey")
        index = READER.settle(fact for facts, _ in surveyed for fact in facts)
        told = frozenset().union(*(found for _, found in surveyed), (name.encode() for name in names or ()))
        answers = told
        for _ in range(_ROUNDS):
            if not told:
                break
            say("following names")
            told = frozenset().union(*working.call("extend", told))
            answers |= told
        say("looking for gates")
        found: list[Found] = working.call("find", index)
    gates: list[Gate] = sorted((gate for part in found for gate in part.gates), key=lambda gate: (gate.file, gate.line))
    unread: list[Unread] = sorted(
        [*missing, *(each for part in found for each in part.unread)], key=lambda each: each.file
    )
    answer = ScanResult(
        gates=tuple(gates),
        unread=tuple(unread),
        files=len(sources) if files is None else len(files),
        read=sum(part.read for part in found),
        vendored=None if not vendored and foreign else 0,
        seconds=time.monotonic() - begun,
        names=frozenset(name.decode() for name in answers),
    )
    if kept:
        cache.store(kept, answer)
    return answer
