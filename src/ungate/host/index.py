"""Packages that are not installed: fetched from the package index into the cache, once, and unpacked there.

A fetched version is a folder ``wheels/NAME/VERSION`` in the cache with a note ``VERSION.json`` beside it. The folder
appears by one rename, after the note, so that what is there is whole.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from ungate.errors import Refusal, shell
from ungate.host import downloads, packages, scripts, wheel
from ungate.host.folders import cache_dir, made
from ungate.host.packages import Package
from ungate.host.progress import Report, silent

__all__ = ["cached", "fetch", "install", "parse"]

_LOCK_S = 900.0
_PARTIAL = ".partial-"


def parse(requirement: str) -> Requirement:
    """``DIST`` or ``DIST==VERSION`` (any version specifier); Refusal for options, addresses, extras and markers."""
    advice = "Write it like this: flashinfer-python==0.6.3"
    text = requirement.strip()
    try:
        parsed = Requirement(text)
    except InvalidRequirement as error:
        why = str(error).splitlines()[0].rstrip(".")
        raise Refusal(f"'{text}' does not name a distribution and a version: {why}.", advice) from None
    if parsed.url or parsed.marker or parsed.extras:
        raise Refusal(f"'{text}' names more than a distribution and a version.", advice)
    return parsed


def _pinned(requirement: Requirement) -> bool:
    specifiers = list(requirement.specifier)
    return len(specifiers) == 1 and specifiers[0].operator == "==" and not specifiers[0].version.endswith(".*")


def _shelf(requirement: Requirement) -> Path:
    return cache_dir() / "wheels" / packages.canonical(requirement.name)


def cached(requirement: str) -> Path | None:
    """The newest version in the cache that a requirement allows, or None; never asks the network."""
    parsed = parse(requirement)
    found: list[tuple[Version, Path]] = []
    shelf = _shelf(parsed)
    for folder in shelf.iterdir() if shelf.is_dir() else ():
        with contextlib.suppress(InvalidVersion):
            version = Version(folder.name)
            if folder.is_dir() and parsed.specifier.contains(version, prereleases=True):
                found.append((version, folder))
    return max(found)[1] if found else None


def _cached(requirement: Requirement) -> Path | None:
    """What answers a requirement for good: only a pinned one, since any other may have a newer answer tomorrow."""
    if not _pinned(requirement):
        return None
    exact = _shelf(requirement) / next(iter(requirement.specifier)).version
    return exact if exact.is_dir() else cached(str(requirement))


@contextlib.contextmanager
def _locked(shelf: Path, requirement: Requirement) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = shelf.parent / ".locks" / shelf.name
    try:
        made(lock.parent, "UNGATE_CACHE_DIR")
        with FileLock(lock, timeout=_LOCK_S):
            yield
    except Timeout:
        raise Refusal(
            f"Another process has been fetching '{requirement.name}' for {_LOCK_S:.0f} s; it holds {lock}.",
            f"Wait for it, or find it: fuser -v {shell(lock)}",
        ) from None


def fetch(requirement: str, report: Report | None = None) -> Path:
    """The root of the unpacked wheel of ``DIST==VERSION``, from the cache or else from the package index.

    A pinned version that is in the cache is answered without the network. ``DIST`` alone asks the index for the latest
    version that has a wheel. Refusal, each with its own reason: no such distribution, no such version, no
    wheel, no network, no installer, another process that holds the lock.
    """
    parsed, say = parse(requirement), report or silent
    shelf = _shelf(parsed)
    if found := _cached(parsed):
        return found
    if not (downloads.have_pip() or downloads.uv()):
        raise Refusal(
            f"'{parsed}' cannot be fetched: the interpreter {sys.executable} has no pip, and no uv is on PATH.",
            f"Install one of them: {sys.executable} -m ensurepip, or the program uv",
        )
    with _locked(shelf, parsed):
        if found := _cached(parsed):
            return found
        prefix = f"{_PARTIAL}{shelf.name}="
        for stale in shelf.parent.glob(f"{prefix}*"):
            shutil.rmtree(stale, ignore_errors=True)  # left by a process that was killed; the lock is ours
        with tempfile.TemporaryDirectory(prefix=prefix, dir=shelf.parent) as name:
            return _fetch(parsed, shelf, Path(name), say)


def _fetch(requirement: Requirement, shelf: Path, work: Path, say: Report) -> Path:
    say(f"fetching {requirement}")
    note: dict[str, str | int | None]
    if downloads.have_pip():
        archive = downloads.by_pip(requirement, work)
        note = {"wheel": archive.name, "sha256": wheel.digest(archive), "bytes": archive.stat().st_size, "by": "pip"}
        root = work / "unpacked"
        wheel.unpack(archive, root, say)
    else:
        root = downloads.by_uv(requirement, work)
        # uv keeps no wheel; its RECORD pins the hash of every file instead.
        note = {"wheel": None, "sha256": None, "bytes": None, "by": "uv"}
    found = [item for item in packages.below(root) if packages.canonical(item.name) == shelf.name]
    if not found or not found[0].version:
        raise Refusal(
            f"What the index gave for '{requirement}' describes itself as "
            f"{', '.join(f'{item.name} {item.version}' for item in packages.below(root))}.",
            "Check which index pip is configured for: pip config list",
        )
    place = shelf / found[0].version
    if place.exists():
        return place
    shelf.mkdir(exist_ok=True)
    draft = work / "note.json"
    draft.write_text(json.dumps({"name": found[0].name, "version": found[0].version, **note}, indent=1) + "\n")
    draft.replace(shelf / f"{place.name}.json")
    root.replace(place)
    return place


def install(requirements: Sequence[str], into: Path, report: Report | None = None) -> tuple[Package, ...]:
    """Put the wheels of ``requirements`` into the folder ``into`` as ``pip install --no-deps --target`` would.

    With ``.dist-info``, RECORD, INSTALLER and scripts. A version that is there already is kept. Refusal when another
    version of a distribution is there, or a file of a new one exists; nothing has been changed then.
    """
    say = report or silent
    parsed = [parse(requirement) for requirement in requirements]
    into = into.expanduser().absolute()
    if into.exists() and not into.is_dir():
        raise Refusal(f"{into} is a file; packages go into a folder.", "Name a folder that is empty or does not exist.")
    there = {packages.canonical(item.name): item for item in packages.below(into)} if into.is_dir() else {}
    fresh: list[Path] = []
    for requirement in parsed:
        other = there.get(packages.canonical(requirement.name))
        if other is None or not other.version:
            fresh.append(fetch(str(requirement), say))
        elif not requirement.specifier.contains(other.version, prereleases=True):
            raise Refusal(
                f"{into} already holds {other.name} {other.version}, not '{requirement}'.",
                "Name another folder, or remove what is in this one first.",
            )
    for root in fresh:
        for top in root.iterdir():
            if (into / top.name).is_file() or (into / top.name / "__init__.py").exists():
                raise Refusal(f"{into / top.name} is there already and is not overwritten.", "Name an empty folder.")
    into.mkdir(parents=True, exist_ok=True)
    for root in fresh:
        say(f"installing {root.parent.name} {root.name}")
        _copy(root, into)
    wanted = {packages.canonical(requirement.name) for requirement in parsed}
    return tuple(item for item in packages.below(into) if packages.canonical(item.name) in wanted)


def _copy(root: Path, into: Path) -> None:
    """Copy an unpacked wheel; its ``.dist-info`` comes last and by a rename, so that half a package is none."""
    infos = [top for top in root.iterdir() if top.name.endswith(".dist-info")]
    for top in root.iterdir():
        if top.is_dir() and top not in infos and not top.name.endswith(".data"):
            shutil.copytree(top, into / top.name, dirs_exist_ok=True)
        elif top.is_file():
            shutil.copy2(top, into / top.name)
    for info in infos:
        with tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=into) as name:
            draft = Path(name) / info.name
            shutil.copytree(info, draft)
            scripts.write(root, draft, into)
            draft.replace(into / info.name)
