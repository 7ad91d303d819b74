"""In which release the gates of one function, or of one default, opened or closed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from ungate.errors import Refusal
from ungate.host import children
from ungate.model import Gate, Status, Target
from ungate.trace.corpus import Corpus
from ungate.trace.flags import settings
from ungate.trace.graph import Graph
from ungate.trace.jit import builds

if TYPE_CHECKING:
    from ungate.host.packages import Package

__all__ = ["Place", "Release", "changes", "judge", "listed", "matter"]

_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Place:
    """Lines of a file, 1-based and inclusive."""

    file: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Release:
    """One version. ``status`` is that of the feature: closed when any of its gates is, unknown when it cannot be
    told; ``present`` is False where the feature does not exist, None where the release could not be read."""

    version: str
    status: Status
    present: bool | None
    gates: tuple[Gate, ...] = ()
    note: str = ""


def listed(distribution: str) -> tuple[str, ...]:
    """Every release that the package index offers for this interpreter, oldest first, post releases included."""
    command = [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", "--", distribution]
    outcome = children.run(command, deadline_s=_DEADLINE_S)
    match = re.search(r"^Available versions: (.+)$", outcome.output, re.MULTILINE)
    if match is None:
        said = next((line for line in reversed(outcome.output.splitlines()) if line.strip()), "it gave no answer")
        raise Refusal(
            f"The package index names no release of {distribution}: {said.strip()}.",
            f"Name the releases yourself: ungate releases {distribution}==VERSION {distribution}==VERSION --feature F",
        )
    versions = [_version(text.strip()) for text in match.group(1).split(",")]
    return tuple(str(version) for version in sorted(version for version in versions if version is not None))


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def matter(package: Package, feature: str) -> tuple[Package, tuple[Place, ...]]:
    """(the package narrowed to the files that decide about a feature, the places in them).

    ``feature`` is a function, or a server flag or attribute: then the conditions under which it is set by default.
    The files are those of the places and those that define what they import.
    """
    graph = Graph(Corpus([package]), builds)
    name = feature.rpartition(":")[2].rpartition(".")[2]
    places = tuple(_functions(graph, name)) or tuple(_defaults(graph, name.lstrip("-").replace("-", "_")))
    files: dict[str, None] = {}
    for place in places:
        files[place.file] = None
        module = graph.names.file(place.file)
        for inside in module.top.within() if module is not None else ():
            for imported in inside.imports:
                thing = graph.names.text(imported, inside)
                target = graph.corpus.modules.get(thing.module) if thing is not None else None
                if target is not None:
                    files[target] = None
    return replace(package, tops=tuple(files)), places


def _functions(graph: Graph, name: str) -> Iterator[Place]:
    for file, offset in graph.corpus.places(f"def {name}"):
        module = graph.names.file(file)
        scope = module.at(graph.corpus.line(file, offset)) if module is not None else None
        if scope is not None and scope.kind == "function":
            yield Place(file, scope.first, scope.last)


def _defaults(graph: Graph, attribute: str) -> Iterator[Place]:
    for setting in settings(graph, attribute):
        if setting.turns != "off":
            yield from (Place(setting.scope.module.file, first, last) for first, last in setting.ranges)


def judge(version: str, places: Sequence[Place], gates: Sequence[Gate], target: Target) -> Release:
    """What the gates at the places of one release come to for the target."""
    if not places:
        return Release(version, Status.UNKNOWN, False, note="it does not exist in this release")
    inside = tuple(
        gate
        for gate in gates
        if gate.role not in ("mechanism", "source", "choice")
        and any(gate.file == place.file and place.first <= gate.line <= place.last for place in places)
    )
    statuses = {gate.status(target) for gate in inside}
    for status in (Status.CLOSED, Status.UNKNOWN):
        if status in statuses:
            return Release(version, status, True, inside)
    return Release(version, Status.OPEN, True, inside, "" if inside else "no gate inside it")


def changes(releases: Sequence[Release]) -> tuple[str, ...]:
    """The history in sentences: ``closed up to 0.6.16``, ``open from 0.6.17``."""
    told: list[str] = []
    known = [release for release in releases if release.present]
    for index, release in enumerate(known):
        before = known[index - 1] if index else None
        if before is not None and before.status is release.status:
            continue
        after = next((later for later in known[index:] if later.status is not release.status), None)
        last = known[known.index(after) - 1] if after is not None else None
        word = release.status.value
        if before is None and last is not None:
            told.append(f"{word} up to {last.version}")
        elif last is None:
            told.append(f"{word} from {release.version}" if before is not None else f"{word} in every release read")
        elif last is release:
            told.append(f"{word} in {release.version}")
        else:
            told.append(f"{word} from {release.version} to {last.version}")
    return tuple(told)
