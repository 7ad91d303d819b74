"""Further arms with packages of their own: which environment each runs in, and what the recipe's way is like there.

The sanctioned way comes first: a release that lets the target through needs no edit. What it is like is read from its
files, so that a run that stops before a server says it too.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ungate.errors import Refusal
from ungate.host import packages as installed
from ungate.host.environment import Environment, resolve
from ungate.host.folders import cache_dir
from ungate.host.progress import Report
from ungate.model import Gate, Status, Variant
from ungate.pipeline.reading import follow
from ungate.pipeline.records import Context, Elsewhere, Records, Request
from ungate.plain import counted

__all__ = ["look", "placed", "release", "swapped"]


def look(request: Request, records: Records, context: Context) -> Records:
    """Follow the recipe's way in the packages of every further arm that has its own."""
    if request.same:
        return records
    variants = [each for each in (*request.recipe.arms, *request.arms) if each.release or each.place]
    found = tuple(_look(request, variant, context.report) for variant in variants)
    return replace(records, elsewhere=found)


def _look(request: Request, variant: Variant, report: Report) -> Elsewhere:
    recipe, target = request.recipe, request.target
    environment = _environment(request, variant, report)
    try:
        packages = tuple(installed.find(environment, name) for name in recipe.packages)
    except Refusal as refusal:
        return Elsewhere(variant.name, (), (), False, refusal.what)
    named = tuple((package.name, package.version) for package in packages)
    misfits = _misfits(request, environment)
    if not recipe.entries:
        return Elsewhere(variant.name, named, (), None, misfits)
    report(f"following the way in {variant.name}")
    try:
        _, chain = follow(recipe, packages, target, report)
    except Refusal as refusal:
        return Elsewhere(variant.name, named, (), False, f"the way of {recipe.name} was not found: {refusal.what}")
    flag = any(hop.kind == "flag" for hop in chain.hops) if recipe.flag else None
    # A default that leaves the target out is no obstacle where the flag is given.
    shut = [gate for hop in chain.hops if hop.kind != "default" for gate in hop.gates if _shut(gate, request)]
    closed = tuple(dict.fromkeys(f"{gate.file}:{gate.line} {gate.condition}" for gate in shut))
    if flag is False:
        said = f"{recipe.flag} is not defined there"
    elif closed:
        said = f"closed for {target} in {counted(len(closed), 'place')}, first {closed[0]}"
    else:
        said = f"every gate on the way lets {target} through"
    if unsure := sum(hop.verified is None for hop in chain.hops):
        said += f"; {unsure} of {len(chain.hops)} steps could not be followed"
    return Elsewhere(variant.name, named, closed, flag, "; ".join(filter(None, (said, misfits))))


def _misfits(request: Request, environment: Environment) -> str:
    """What does not fit together there and does in the user's own environment, in words.

    A release that is laid over the installed packages leaves its siblings behind, and a server that checks them does
    not start.
    """
    from ungate.host import siblings

    found = []
    for each in (environment, request.environment):
        versions = installed.versions(each)
        found.append([*siblings.skew(versions), *siblings.pins(each, versions)])
    return "; ".join(said.rstrip(".") for said in found[0] if said not in found[1])


def _shut(gate: Gate, request: Request) -> bool:
    closed = gate.status(request.target) is Status.CLOSED and bool(gate.passes.yes)
    return closed and gate.role not in ("define", "choice")


def _environment(request: Request, variant: Variant, report: Report) -> Environment:
    if variant.place is not None:
        folder = variant.place.is_dir()
        return resolve(variant.place if folder else None, None if folder else variant.place)
    fetched = _fetched(variant.release, report)
    return Environment((*fetched, *request.environment.roots), request.environment.python)


def _fetched(requirements: Sequence[str], report: Report) -> tuple[Path, ...]:
    from ungate.host.index import fetch

    found = []
    for requirement in requirements:
        report(f"fetching {requirement}")
        found.append(fetch(requirement, report))
    return tuple(found)


def release(requirements: Sequence[str], base: Mapping[str, str], report: Report) -> dict[str, str]:
    """What a process needs to import these releases before the installed ones, with JIT caches of their own.

    Their dependencies are not fetched: the installed ones serve them, and a server that this breaks does not start.
    """
    path = [*map(str, _fetched(requirements, report)), base.get("PYTHONPATH", "")]
    return {**_caches("\n".join(requirements), base), "PYTHONPATH": os.pathsep.join(filter(None, path))}


def placed(request: Request, place: Path, packages: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The whole environment of an arm whose packages are at ``place``, an interpreter or a folder.

    The folder of ``--site`` is not on its path: it would put the baseline's packages before the arm's own.
    """
    base = {**os.environ, **request.variables}
    if place.is_dir():
        base["PYTHONPATH"] = os.pathsep.join(filter(None, (str(place), base.get("PYTHONPATH", ""))))
    return {**base, **_caches(f"{place} {packages}", base)}


def _caches(key: str, base: Mapping[str, str]) -> dict[str, str]:
    from ungate.patch import caches

    return caches.environment(cache_dir() / "releases" / hashlib.sha256(key.encode()).hexdigest()[:16], base)


def swapped(command: Sequence[str], place: Path) -> tuple[str, ...]:
    """The server command with the program of another environment; Refusal where it has none of that name."""
    if place.is_dir() or not command:
        return ()
    name = Path(command[0]).name
    if name.rstrip("0123456789.") == "python":
        return (str(place), *command[1:])
    # Not resolved: the interpreter of a virtual environment is a link, and its programs lie beside the link.
    beside = place.parent / name
    if not beside.is_file():
        raise Refusal(
            f"The server command begins with {command[0]}, and {place.parent} has no program of that name.",
            f"Begin it with the interpreter: {place} -m MODULE …, or give the arm a command in a recipe: [[arms]]",
        )
    return (str(beside), *command[1:])
