"""The scan: select the files, follow names between them, run the patterns, keep the answer."""

from __future__ import annotations

import os
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
_MOST = 8
"""Processes that read side by side unless more are asked for: each takes some 300 MB on the largest packages."""
_DEEPEST = 12
"""Folders below which a group of files is not divided further."""


def _cores() -> int:
    """The cores that this process may use, within what a scan makes use of."""
    return min(max(len(os.sched_getaffinity(0)), 2), _MOST)


def _weight(source: Source) -> int:
    """About how long a file takes, in bytes of Python."""
    if source.vendored:
        return source.stamp[0] // 20
    return source.stamp[0] // (1 if source.language == "python" else 2) + 1000


def _shares(sources: list[Source], jobs: int) -> list[list[Source]]:
    """Shares of about the same weight. Python files of one folder stay together: they import each other.

    A file's share depends on the names and sizes of the files alone. Each language is shared out for itself: the
    steps of a scan take their time in one or the other, and the shares wait for each other after each.
    """
    shares: list[list[Source]] = [[] for _ in range(jobs)]
    for language in ("python", "cuda"):
        groups = _folders([source for source in sources if source.language == language], 4 * jobs)
        totals = [0] * jobs
        sized = sorted(((sum(map(_weight, group)), key) for key, group in groups.items()), reverse=True)
        for weight, key in sized:
            index = totals.index(min(totals))
            shares[index].extend(groups[key])
            totals[index] += weight
    return shares


def _folders(sources: list[Source], parts: int) -> dict[tuple[str, ...], list[Source]]:
    """The files by folder; a folder that holds more than one of so many parts is divided into those in it."""
    largest = sum(map(_weight, sources)) // parts + 1
    groups: dict[tuple[str, ...], list[Source]] = {}
    waiting: list[tuple[tuple[str, ...], list[Source]]] = [((), sources)]
    while waiting:
        key, group = waiting.pop()
        if len(group) <= 1 or len(key) >= _DEEPEST or (key and sum(map(_weight, group)) <= largest):
            groups[key] = group
            continue
        finer: dict[tuple[str, ...], list[Source]] = {}
        for source in group:
            finer.setdefault(tuple(source.file.split("/")[: len(key) + 1]), []).append(source)
        waiting.extend(finer.items())
    return groups


def _needed(sources: list[Source], files: frozenset[str]) -> list[Source]:
    """What must be read for the gates of a few files: themselves, and headers for their macros."""
    headers = any(source.file in files and source.language == "cuda" for source in sources)
    return [source for source in sources if source.file in files or (headers and source.language == "cuda")]


def _make(share: tuple[list[Source], list[tuple[str, str]], bool, frozenset[str] | None]) -> Shard:
    from ungate.scan.shard import Shard

    return Shard(*share)


def scan(
    packages: Sequence[Package],
    *,
    jobs: int | None = None,
    use_cache: bool = True,
    report: Report | None = None,
    vendored: bool = False,
    files: frozenset[str] | None = None,
) -> ScanResult:
    """Every gate of the packages; third-party trees in them are searched only with ``vendored``.

    The macros of third-party headers count in any case, and a name that leads into such a tree is followed.

    ``file`` of a gate is relative to its package's root. ``jobs`` processes read side by side (None: one a core, two
    to eight); with ``use_cache`` an answer for the same files (by path, size and times) is taken from the cache
    folder. Raises Refusal.

    With ``files`` (relative, as in a gate) only their gates are looked for: at least those that a scan of everything
    finds there, as every name in them is followed.
    """
    say = report or silent
    begun = time.monotonic()
    say("listing files")
    sources, missing = select(packages, SUFFIXES)
    kept = cache.key(sources, vendored=vendored, files=files) if use_cache else ""
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
        sources = _needed(sources, files)
    count = 1 if len(sources) < _FEW else max(1, _cores() if jobs is None else jobs)
    shares = [(share, everything, vendored, files) for share in _shares(sources, count)]
    with crew(_make, shares) as working:
        say("reading files", 0, len(sources))
        surveyed = working.call("survey")
        index = READER.settle(macro for each in surveyed for macro in each.macros)
        told = frozenset().union(*(each.answers for each in surveyed))
        stars = frozenset().union(*(each.stars for each in surveyed))
        for turn in range(_ROUNDS if files is None else 0):
            if turn and not told:
                break
            say("following names")
            told = frozenset().union(*working.call("extend", told, stars))
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
    )
    if kept:
        cache.store(kept, answer)
    return answer
