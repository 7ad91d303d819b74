"""Public results that come with ungate, and which of them may hold for a feature on a machine."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from ungate.host.facts import HostFacts
from ungate.model import KnownMatch, KnownResult, Recipe, Target

__all__ = ["OUTCOMES", "TOPOLOGIES", "described", "known", "matching", "topology_of", "words"]

_FILE = Path(__file__).parent / "known.toml"
OUTCOMES = ("wrong", "hang", "crash", "slower", "mixed", "refused", "faster")
"""What may come of opening a feature, the worst first."""
TOPOLOGIES = ("no-peer", "pcie-peer", "nvlink-pairs", "nvlink")
"""How the GPUs of a host reach each other: not at all, over PCIe, some pairs over NVLink, all pairs over NVLink."""
_SPELLINGS = ((re.compile(r"all[-_ ]reduce"), "allreduce"), (re.compile(r"one[-_ ]shot"), "oneshot"))


@functools.cache
def known() -> tuple[KnownResult, ...]:
    """Every public result, in the order of the file."""
    tables = tomllib.loads(_FILE.read_text(encoding="utf-8"))["result"]
    return tuple(
        KnownResult(
            reference=table["reference"],
            date=str(table.get("date", "")),
            outcome=table["outcome"],
            features=tuple(table["features"]),
            packages=dict(table.get("packages", {})),
            archs=tuple(table.get("archs", ())),
            topologies=tuple(table.get("topologies", ())),
            ranks=tuple(table.get("ranks", ())),
            hardware=table["hardware"],
            what=table["what"],
            reopens=table["reopens"],
            partial=bool(table.get("partial", False)),
        )
        for table in tables
    )


def described(recipe: Recipe) -> str:
    """The words by which results of a recipe's feature are found: its name, its switch and the symbols it calls."""
    return " ".join((recipe.name, recipe.flag, recipe.attribute, *recipe.entries))


def topology_of(facts: HostFacts | None) -> str | None:
    """The host's topology, one of :data:`TOPOLOGIES`; None with fewer than two GPUs or where a pair is not known."""
    if facts is None or not facts.links:
        return None
    if facts.peer_access is False:
        return "no-peer"
    wired = [link.nvlink for link in facts.links]
    if facts.peer_access is None or None in wired:
        return None
    if all(wired):
        return "nvlink"
    return "nvlink-pairs" if any(wired) else "pcie-peer"


def matching(
    feature: str,
    target: Target | None,
    versions: Mapping[str, str] | None = None,
    topology: str | None = None,
) -> tuple[KnownMatch, ...]:
    """The public results that speak of ``feature`` and are not excluded by what is known here, the worst first.

    ``feature`` is a name or a sentence: a result matches with all words of one of its phrases. ``versions`` maps
    the installed distributions (None: not known), ``topology`` is one of :data:`TOPOLOGIES`. What is not known
    excludes nothing and is named in the match.
    """
    asked = words(feature)
    found = []
    for result in known():
        if not any(words(phrase) <= asked for phrase in result.features):
            continue
        if target is not None and result.archs and target.number not in result.archs:
            continue
        if topology is not None and result.topologies and topology not in result.topologies:
            continue
        held = [_holds(name, bounds, versions) for name, bounds in result.packages.items()]
        if False in held:
            continue
        unsure = [f"version of {name}" for name, holds in zip(result.packages, held, strict=True) if holds is None]
        if topology is None and result.topologies:
            unsure.append("topology")
        if target is None and result.archs:
            unsure.append("target")
        found.append(KnownMatch(result, tuple(unsure)))
    return tuple(sorted(found, key=lambda match: (OUTCOMES.index(match.result.outcome), _newest(match.result.date))))


def words(text: str) -> frozenset[str]:
    """The words of a text by which results are found, in lower case and in one spelling."""
    text = text.lower()
    for spelling, word in _SPELLINGS:
        text = spelling.sub(word, text)
    return frozenset(re.findall(r"[a-z0-9]+", text))


def _holds(name: str, bounds: str, versions: Mapping[str, str] | None) -> bool | None:
    """Whether the installed version lies in the range; None where it is not known or the range is not stated."""
    if versions is None:
        return None
    if name not in versions:
        return False
    if not bounds:
        return None
    try:
        version = Version(versions[name].partition("+")[0])
    except InvalidVersion:
        return None
    return SpecifierSet(bounds).contains(version, prereleases=True)


def _newest(date: str) -> int:
    return -int(date.replace("-", "") or 0)
