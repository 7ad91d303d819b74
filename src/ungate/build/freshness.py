"""Whether a cache entry is what its sources would give today.

No cache here records the content of what it was made from, and a date proves nothing: a restored file has an
old date and another content, a copied one a new date and the same. So ungate keeps the content hashes itself, from
the first time it sees an entry; what was before that it does not claim to know.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ungate.build import misfit, runtime, usage
from ungate.build.caches import Cache, Found, caches, size_of
from ungate.errors import Refusal, shell
from ungate.host import files, packages
from ungate.host.environment import Environment
from ungate.host.folders import state_dir
from ungate.host.progress import Report, silent
from ungate.plain import counted

__all__ = ["Entry", "State", "survey"]


class State(StrEnum):
    """``busy``: a living process uses it or builds it, so that nothing else is said and nothing is removed."""

    FRESH = "fresh"
    STALE = "stale"
    UNKNOWN = "unknown"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a cache. ``size`` in bytes; ``changed`` is when it was last written, in seconds since 1970."""

    cache: str
    root: Path
    name: str
    path: Path
    owner: str
    version: str
    arch: str
    size: int
    changed: float
    state: State
    reason: str
    note: str = ""


class _Hashes:
    """Content hashes, each file read once for all entries (a thousand modules include the same headers)."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def of(self, path: Path) -> str:
        """The sha256 of a file, "" where it is not there or cannot be read."""
        if path not in self._known:
            try:
                with path.open("rb") as stream:
                    self._known[path] = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError:
                self._known[path] = ""
        return self._known[path]


class _Edited:
    """Which files of installed packages are not as they were installed, asked package by package when needed."""

    def __init__(self, env: Environment, hashes: _Hashes) -> None:
        self._hashes = hashes
        self._recorded: dict[Path, str] = {}
        self._env = env
        self._read: set[str] = set()

    def differs(self, owner: str, path: Path) -> bool:
        if owner not in self._read:
            self._read.add(owner)
            try:
                package = packages.find(self._env, owner)
            except Refusal:
                return False
            self._recorded |= {package.root / name: sha for name, sha in packages.recorded(package).items()}
        stated = self._recorded.get(path)
        return stated is not None and stated != self._hashes.of(path)


def _note_of(entry: Path) -> Path:
    return state_dir() / "caches" / f"{hashlib.sha256(os.fsencode(entry)).hexdigest()[:24]}.json"


def _kept(entry: Path) -> tuple[dict[str, str], dict[str, str]] | None:
    try:
        content = json.loads(_note_of(entry).read_text(encoding="utf-8"))
        return content["outputs"], content["inputs"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def survey(
    env: Environment,
    variables: Mapping[str, str],
    only: Sequence[str] = (),
    *,
    remember: bool = True,
    report: Report = silent,
) -> tuple[Entry, ...]:
    """Every entry of every cache (or of those named in ``only``), with what is known of it.

    ``variables`` is the environment that says where the caches lie. ``remember`` keeps the content hashes of what is
    seen for the first time in ungate's state folder. Refusal for an unknown cache and one that cannot be read.
    """
    known = {cache.name: cache for cache in caches()}
    if unknown := set(only) - known.keys():
        raise Refusal(
            f"There is no cache named {', '.join(sorted(unknown))}.", f"The caches are: {', '.join(sorted(known))}"
        )
    versions, hashes = packages.versions(env), _Hashes()
    edited = _Edited(env, hashes)
    found: list[Entry] = []
    for cache in known.values():
        if not only or cache.name in only:
            report(f"looking into {cache.name}")
            found += _survey(cache, variables, versions, hashes, edited, remember)
    return tuple(found)


def _survey(
    cache: Cache,
    variables: Mapping[str, str],
    versions: Mapping[str, str],
    hashes: _Hashes,
    edited: _Edited,
    remember: bool,
) -> Iterator[Entry]:
    root = cache.place(variables).expanduser().absolute()
    if not root.is_dir():
        return
    try:
        entries = list(cache.entries(root))
    except OSError as error:
        raise Refusal(
            f"The {cache.name} cache at {root} cannot be read: {error.strerror}.", f"Look at it: ls -la {shell(root)}"
        ) from None
    held = usage.lock_holders(lock for entry in entries for lock in entry.locks)
    used = usage.users(root)
    for entry in entries:
        state, reason = _busy(entry, held, used) or _judged(entry, versions, hashes, edited, remember)
        yield Entry(
            cache=cache.name,
            root=root,
            name=entry.name,
            path=entry.path,
            owner=entry.owner,
            version=entry.version,
            arch=entry.arch,
            size=size_of(entry.path),
            changed=max((output.stat().st_mtime for output in entry.outputs), default=entry.path.stat().st_mtime),
            state=state,
            reason=reason,
            note="; ".join(filter(None, (entry.note, cache.layout))),
        )


def _busy(entry: Found, held: Mapping[Path, int], used: Mapping[int, frozenset[Path]]) -> tuple[State, str] | None:
    for lock in entry.locks:
        if lock in held:
            return State.BUSY, f"process {held[lock]} holds {lock.name}"
    for pid, opened in used.items():
        if any(path.is_relative_to(entry.path.resolve()) for path in opened):
            return State.BUSY, f"process {pid} has it loaded"
    return None


def _judged(
    entry: Found, versions: Mapping[str, str], hashes: _Hashes, edited: _Edited, remember: bool
) -> tuple[State, str]:
    there = versions.get(packages.canonical(entry.owner))
    if entry.stale:
        return State.STALE, entry.stale
    if entry.version and there and entry.version.partition("+")[0] != there.partition("+")[0]:
        return State.STALE, f"made by {entry.owner} {entry.version}, and {there} is installed"
    if other := runtime.another_toolkit(entry.outputs, versions):
        return State.STALE, other
    if other := misfit.other_architecture(entry.outputs, entry.arch):
        return State.STALE, other
    if entry.addressed:
        return State.FRESH, "named by a hash of what it was made from"
    if entry.inputs is None:
        return State.UNKNOWN, "nothing there says what it was made from"
    now = {str(path): hashes.of(path) for path in entry.inputs}
    outputs = {path.name: hashes.of(path) for path in entry.outputs}
    kept = _kept(entry.path)
    if remember and outputs and (kept is None or kept[0] != outputs):
        content = {"path": str(entry.path), "outputs": outputs, "inputs": now}
        files.write(_note_of(entry.path), json.dumps(content, indent=1).encode())
    gone = sorted(name for name, digest in now.items() if not digest)
    if gone:
        return State.STALE, f"{gone[0]}, which it was made from, is gone" + _more(gone)
    if not outputs:
        return State.STALE, "it holds no finished result"
    if kept is not None:
        return _compared(kept, outputs, now)
    off = sorted(path.name for path in entry.inputs if edited.differs(entry.owner, path))
    if off:
        return State.UNKNOWN, f"{off[0]} is edited{_more(off)}, and whether it was when this was made is not known"
    return State.UNKNOWN, f"seen for the first time; {counted(len(now), 'input')} watched from now on"


def _compared(
    kept: tuple[dict[str, str], dict[str, str]], outputs: dict[str, str], now: dict[str, str]
) -> tuple[State, str]:
    old_outputs, old_inputs = kept
    changed = sorted(name for name, digest in now.items() if old_inputs.get(name) != digest)
    if old_outputs != outputs:
        if changed:
            return State.UNKNOWN, "made anew since it was last seen, from inputs that were changed too"
        return State.FRESH, f"made anew since it was last seen, from the same {counted(len(now), 'input')}"
    if changed:
        return (
            State.STALE,
            f"{Path(changed[0]).name} has another content since{_more(changed)}, and it was not made anew",
        )
    return State.FRESH, f"{counted(len(now), 'input')} with the content of before"


def _more(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""
