"""push, pop, refresh and what is applied: quilt's words over installed packages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ungate.errors import Refusal, shell
from ungate.host.packages import Package, deviations, recorded
from ungate.model import Series
from ungate.patch import announce
from ungate.patch.content import changed, root_of, sha256
from ungate.patch.disk import Disk, Owner
from ungate.patch.journal import Change, Journal
from ungate.patch.state import Applied, journal_of, locked, read_stack, write_stack
from ungate.patch.transaction import Outcome, current, recover, run, safe

__all__ = [
    "Pushed",
    "Standing",
    "applied",
    "contents",
    "pop",
    "pristine",
    "push",
    "recover_all",
    "refresh",
    "standing",
]

_LINKING = frozenset({"uv", "conda", "pixi", "rattler", "mamba", "micromamba", "pdm"})
"""Installers that hard-link files from a cache: a second name is no surprise there."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """``done`` is False where the series stood already; ``dropped`` are series that a new installation had removed."""

    name: str
    root: Path
    files: tuple[str, ...]
    done: bool
    dropped: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """How an applied series stands.

    ``state`` is ``applied``, ``gone`` (its packages were installed anew), ``partly gone`` (some of them were), or
    ``disturbed``: the files in ``disturbed`` are neither as the series wrote them nor as installed. ``ours`` are the
    files that are as written.
    """

    applied: Applied
    state: str
    ours: tuple[str, ...] = ()
    disturbed: tuple[str, ...] = ()


def _one_root(packages: Sequence[Package]) -> Path:
    roots = {package.root.resolve() for package in packages}
    if len(roots) != 1:
        raise Refusal(
            f"The series changes packages in {len(roots)} folders ({', '.join(sorted(map(str, roots)))}).",
            "Push it into one of them at a time: ungate patch push SERIES --site DIR",
        )
    return roots.pop()


def _touched(series: Series, packages: Sequence[Package]) -> tuple[Package, ...]:
    found: dict[str, Package] = {}
    for file in series.before:
        package = root_of(packages, "", file)
        owner = next((p for p in packages if file in recorded(p)), package)
        if owner is None:
            raise Refusal(
                f"The series '{series.name}' changes {file}, which is in none of the packages.",
                "Name the environment that holds it: ungate patch push SERIES --site DIR",
            )
        found[owner.name] = owner
    return tuple(found.values())


def _refuse_editable(packages: Sequence[Package]) -> None:
    for package in packages:
        if package.editable:
            raise Refusal(
                f"{package.name} is an editable installation: its files at {package.root} belong to a checkout.",
                f"Use git there: ungate patch export SERIES > s.patch && git -C {shell(package.root)} apply s.patch",
            )


def _refuse_link(path: Path, package: Package) -> None:
    links = path.lstat().st_nlink
    if links > 1 and package.installer.lower() not in _LINKING:
        raise Refusal(
            f"{path} has {links} names (hard links), and {package.installer or 'its installer'} makes none: "
            "someone planted one, so it is left alone.",
            f"See the other names: find {package.root} -samefile {path}",
        )


def standing(root: Path, packages: Sequence[Package], journal: Journal | None = None) -> tuple[Standing, ...]:
    """Each applied series of the folder, the first pushed first, compared with the files as they are now."""
    journal = journal or journal_of(root)
    stack = read_stack(journal)
    rows = {file: digest for package in packages for file, digest in recorded(package).items()}
    top: dict[str, str] = {}
    for each in stack:
        top.update({file: after for file, (_, after) in each.files.items()})
    found = []
    for each in stack:
        now = {file: current(root, file) for file in each.files}
        ours = tuple(file for file, digest in now.items() if digest == top[file])
        # as a RECORD says, or neither there nor listed: a new installation put it so
        fresh = tuple(file for file, digest in now.items() if file not in ours and digest == rows.get(file))
        odd = tuple(file for file in now if file not in ours and file not in fresh)
        state = "disturbed" if odd else "applied" if not fresh else "partly gone" if ours else "gone"
        found.append(Standing(each, state, ours, odd))
    return tuple(found)


def applied(root: Path) -> tuple[Applied, ...]:
    """The applied series of the folder, the first pushed first."""
    return read_stack(journal_of(root))


def _refuse_pending(journal: Journal) -> None:
    if pending := journal.pending():
        raise Refusal(
            f"A {pending.what} was cut short here, so files may be between two states.",
            "Put them right first: ungate patch recover",
        )


def _announcements(journal: Journal, root: Path, stack: tuple[Applied, ...]) -> list[Change]:
    found = []
    for file, data in announce.contents(root, stack).items():
        before = current(root, file)
        if before is not None:
            journal.keep((root / file).read_bytes())
        after = None if data is None else journal.keep(data)
        if before != after:
            found.append(Change(file, before, after))
    return found


def push(series: Series, packages: Sequence[Package], *, deadline_s: float = 60.0, disk: Disk | None = None) -> Pushed:
    """Write the series into the installed packages: all of it or nothing.

    A series that stands already is left alone and said to. Refusal where a file is neither as the series found it nor
    as it writes it, for editable packages, for links, and while an earlier transaction waits for recover.
    """
    disk = disk or Disk()
    if not series.edits:
        root = packages[0].root.resolve() if packages else Path()
        note = (
            "every file is as the series makes it already"
            if series.after
            else "there is nothing to change: every gate that can be opened is open"
        )
        return Pushed(series.name, root, (), False, (), note)
    touched = _touched(series, packages)
    _refuse_editable(touched)
    root = _one_root(touched)
    journal = journal_of(root, disk)
    with locked(journal, deadline_s):
        _refuse_pending(journal)
        states = standing(root, packages, journal)
        keep = tuple(each.applied for each in states if each.state != "gone")
        dropped = tuple(each.applied.name for each in states if each.state == "gone")
        for each in states:
            if each.applied.digest == series.digest and each.state == "applied":
                return Pushed(series.name, root, tuple(series.after), False, (), "it is pushed already")
        if all(current(root, file) == after for file, after in series.after.items()) and series.after:
            note = "every file is as the series makes it already"
            return Pushed(series.name, root, tuple(series.after), False, (), note)
        if any(each.name == series.name for each in keep):
            raise Refusal(
                f"Another series named '{series.name}' is pushed in {root}.",
                f"Pop it first: ungate patch pop --site {shell(root)}",
            )
        changes = []
        for file, (path, before, after) in changed(series, packages).items():
            owner = next(p for p in touched if p.root.resolve() == root and file.split("/", 1)[0] in p.tops)
            safe(root, file)
            _refuse_link(path, owner)
            changes.append(Change(file, journal.keep(before), journal.keep(after), Owner.of(path)))
        new = Applied(
            series.name,
            series.digest,
            str(series.target),
            {change.file: (change.before or "", change.after or "") for change in changes},
            {package.name: package.version for package in touched},
            time.time(),
            tuple(sorted({arch for edit in series.edits for arch in edit.riders})),
        )
        stack = (*keep, new)
        if not states and (foreign := announce.foreign(root)):
            raise Refusal(
                f"A series is pushed in {root} that this user's journal does not know ({foreign}).",
                "Let the user who pushed it pop it, or name the journal: UNGATE_STATE_DIR=DIR ungate patch status",
            )
        changes += _announcements(journal, root, stack)
        run(journal, f"push of '{series.name}'", root, tuple(changes), write_stack(stack), disk)
    return Pushed(series.name, root, tuple(new.files), True, dropped)


def pop(
    root: Path, packages: Sequence[Package], *, deadline_s: float = 60.0, disk: Disk | None = None
) -> Applied | None:
    """Take the top series back; None where none is applied. A series whose packages are gone is only forgotten."""
    disk = disk or Disk()
    root = root.resolve()
    journal = journal_of(root, disk)
    with locked(journal, deadline_s):
        _refuse_pending(journal)
        states = standing(root, packages, journal)
        if not states:
            return None
        top, rest = states[-1], tuple(each.applied for each in states[:-1])
        if top.disturbed:
            raise Refusal(
                f"{', '.join(str(root / file) for file in top.disturbed)} is no longer as the series "
                f"'{top.applied.name}' wrote it; your change wins, and nothing was popped.",
                "Make your change part of the series: ungate patch refresh; or undo it, then pop again.",
            )
        changes = []
        for file, (before, after) in top.applied.files.items():
            if file in top.ours:
                changes.append(Change(file, after, before, Owner.of(safe(root, file))))
        changes += _announcements(journal, root, rest)
        run(journal, f"pop of '{top.applied.name}'", root, tuple(changes), write_stack(rest), disk)
        return top.applied


def refresh(
    root: Path, packages: Sequence[Package], *, deadline_s: float = 60.0, disk: Disk | None = None
) -> tuple[Applied, tuple[str, ...]]:
    """Make what was edited by hand since the push part of the top series; the files themselves are not touched.

    Returns the series and the files that it now takes differently.
    """
    disk = disk or Disk()
    root = root.resolve()
    journal = journal_of(root, disk)
    with locked(journal, deadline_s):
        _refuse_pending(journal)
        states = standing(root, packages, journal)
        if not states:
            raise Refusal(f"No series is pushed in {root}.", "Push one first: ungate patch push RECIPE")
        top = states[-1]
        files, moved = dict(top.applied.files), []
        for file, (before, after) in top.applied.files.items():
            found = current(root, file)
            if found is None:
                raise Refusal(f"{root / file} is missing.", "Install the package again, or pop: ungate patch pop")
            if found != after:
                files[file] = (before, journal.keep((root / file).read_bytes()))
                moved.append(file)
        if not moved:
            return top.applied, ()
        digest = sha256(repr(sorted(files.items())).encode())
        new = replace(top.applied, files=files, digest=digest)
        stack = (*(each.applied for each in states[:-1]), new)
        run(journal, f"refresh of '{new.name}'", root, (), write_stack(stack), disk)
        return new, tuple(moved)


def recover_all(root: Path, *, deadline_s: float = 60.0, disk: Disk | None = None) -> Outcome:
    """Finish, forward or back, what was cut short in this folder."""
    disk = disk or Disk()
    journal = journal_of(root.resolve(), disk)
    with locked(journal, deadline_s):
        return recover(journal, disk)


def pristine(
    packages: Sequence[Package], root: Path, *, remembered: bool = True
) -> dict[str, tuple[tuple[str, str], ...]]:
    """For each package what deviates from its RECORD; a file of a pushed series says by which one.

    With ``remembered``, files that no one wrote since they were last compared are not read again.
    """
    written = {file: (each.name, after) for each in applied(root) for file, (_, after) in each.files.items()}

    def told(package: Package, file: str, reason: str) -> str:
        if file not in written:
            return reason + (_in_the_cache(package, file) if reason == "changed" else "")
        name, after = written[file]
        found = current(root, file)
        if found is None:
            return f"missing, and the series '{name}' changed it"
        return f"changed by the series '{name}'" + ("" if found == after else ", and then by someone else")

    return {
        package.name: tuple(
            (file, told(package, file, reason)) for file, reason in deviations(package, remembered=remembered)
        )
        for package in packages
    }


def _in_the_cache(package: Package, file: str) -> str:
    """What to add where the changed file is linked to its installer's cache: a new installation brings it back."""
    installer = package.installer.lower()
    if installer not in _LINKING or (package.root / file).stat().st_nlink < 2:
        return ""
    clean = f": uv cache clean {package.name}" if installer == "uv" else ""
    return f", and so is the cache it was linked from{clean}"


def contents(applied_series: Applied, root: Path) -> dict[str, tuple[bytes, bytes]]:
    """Each file of a pushed series, before and after, from the journal."""
    journal = journal_of(root)
    return {file: (journal.blob(before), journal.blob(after)) for file, (before, after) in applied_series.files.items()}
