"""In which release the gates of one function opened or closed."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from ungate.errors import Refusal
from ungate.host import children
from ungate.model import Gate, Status, Target
from ungate.trace.corpus import Corpus
from ungate.trace.graph import Graph
from ungate.trace.jit import builds
from ungate.trace.module import Scope

if TYPE_CHECKING:
    from ungate.host.packages import Package

__all__ = ["Release", "changes", "judge", "listed", "matter"]

_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Release:
    """One version. ``status`` is that of the feature: closed when any of its gates is, unknown when it cannot be
    told; ``present`` is False where the function does not exist, None where the release could not be read."""

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


def matter(package: Package, feature: str) -> tuple[Package, tuple[Scope, ...]]:
    """(the package narrowed to the files that decide about a function, the functions of that name).

    Those are the file that defines it and the files that define what it imports.
    """
    corpus = Corpus([package])
    graph = Graph(corpus, builds)
    found: list[Scope] = []
    for file, offset in corpus.places(f"def {feature.rpartition(':')[2].rpartition('.')[2]}"):
        module = graph.names.file(file)
        if module is not None:
            scope = module.at(corpus.line(file, offset))
            if scope.kind == "function":
                found.append(scope)
    files: dict[str, None] = {}
    for scope in found:
        files[scope.module.file] = None
        for inside in scope.module.top.within():
            for name in inside.imports:
                thing = graph.names.text(name, inside)
                target = corpus.modules.get(thing.module) if thing is not None else None
                if target is not None:
                    files[target] = None
    return replace(package, tops=tuple(files)), tuple(found)


def judge(version: str, scopes: Sequence[Scope], gates: Sequence[Gate], target: Target) -> Release:
    """What the gates inside the functions of one release come to for the target."""
    if not scopes:
        return Release(version, Status.UNKNOWN, False, note="the function does not exist in this release")
    inside = tuple(
        gate
        for gate in gates
        if gate.role not in ("mechanism", "source")
        and any(gate.file == scope.module.file and scope.first <= gate.line <= scope.last for scope in scopes)
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
