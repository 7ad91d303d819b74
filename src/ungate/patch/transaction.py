"""Changing installed files all or none.

Each file is written anew beside its place, flushed, and renamed over it, so that a reader sees the old content or the
new, and another hard link to the old inode (uv, conda) keeps the old content. Mode and owner are kept; the modification
time is the present, since build tools and byte-code compare times. A file that is neither what the transaction found
nor what it writes is never touched: whoever changed it wins, and it is named.
"""

from __future__ import annotations

import contextlib
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ungate.errors import Refusal
from ungate.patch.content import sha256
from ungate.patch.disk import Disk
from ungate.patch.journal import Change, Journal, Pending

__all__ = ["Outcome", "current", "recover", "run", "safe"]

_MARK = ".ungate-"


@dataclass(frozen=True, slots=True)
class Outcome:
    """``direction`` is forward, back or nothing; ``disturbed`` names files that someone else changed."""

    direction: str
    files: tuple[str, ...] = ()
    disturbed: tuple[str, ...] = ()
    what: str = ""


def safe(root: Path, file: str) -> Path:
    """The path of a package file below ``root``; Refusal for a way out of it or for anything that is no plain file."""
    parts = PurePosixPath(file).parts
    if not parts or PurePosixPath(file).is_absolute() or ".." in parts or "\\" in file or "\0" in file:
        raise Refusal(
            f"'{file}' leads out of the packages at {root}; nothing was written.",
            "Make the patch with paths relative to the packages' folder: ungate patch import FILE.patch",
        )
    path = root.joinpath(*parts)
    for folder in [path, *path.parents]:
        if folder == root:
            break
        if folder.is_symlink():
            raise Refusal(
                f"{folder} is a link to {folder.readlink()}; a series changes only files in {root} itself.",
                "Patch a copy instead, which leaves installed files alone: ungate run RECIPE --until patch",
            )
    if path.exists() and not stat.S_ISREG(path.lstat().st_mode):
        raise Refusal(f"{path} is no regular file.", "Look at it: ls -ld " + str(path))
    return path


def current(root: Path, file: str) -> str | None:
    """sha256 of the file as it is now, None where it is missing."""
    try:
        return sha256(safe(root, file).read_bytes())
    except FileNotFoundError:
        return None


def run(
    journal: Journal, what: str, root: Path, changes: tuple[Change, ...], stack: dict[str, object], disk: Disk
) -> None:
    """Make all changes or none; the contents must be in the journal's blobs. Refusal names what stood in the way.

    Everything that needs room on the disk is written before the first file changes its place: from there on,
    forward and back, there are only renames and removals.
    """
    for change in changes:
        if (found := current(root, change.file)) != change.before:
            raise _disturbed(root, change.file, found)
    pending = journal.begin(what, root, changes, stack)
    try:
        for place in _places(pending):
            _stage(journal, place, disk)
        for place in _places(pending):
            journal.note(pending, "changing", file=place.change.file)
            _forward(root, place, disk)
            journal.note(pending, "changed", file=place.change.file)
        for change in changes:
            # a package manager that ran meanwhile wins, and the rest is taken back
            if (found := current(root, change.file)) != change.after:
                raise _disturbed(root, change.file, found)
        journal.commit(pending)
    except BaseException as error:
        put_back = _took_back(journal, pending, disk)
        if isinstance(error, OSError):
            raise Refusal(
                f"The {what} could not be finished: {error}. "
                + ("All files are as they were before." if put_back else "Some files may have changed already."),
                "Make room or get write permission, then run the command again."
                if put_back
                else "Put them back: ungate patch recover",
            ) from error
        raise
    _finish(journal, pending, disk)


def _took_back(journal: Journal, pending: Pending, disk: Disk) -> bool:
    try:
        if not journal.committed(pending):
            _back(journal, pending, disk)
    except OSError:
        return False
    return True


def _finish(journal: Journal, pending: Pending, disk: Disk) -> None:
    """All is done; what cannot be tidied now is tidied by recover."""
    with contextlib.suppress(OSError):
        for place in _places(pending):
            _tidy(place, disk)
            _forget_bytecode(place.path, disk)
        journal.end(pending, "done")


def _disturbed(root: Path, file: str, found: str | None) -> Refusal:
    state = "is missing" if found is None else "was changed by someone else"
    return Refusal(
        f"{root / file} {state}; it was left alone, and so were all other files.",
        "See what differs: ungate patch status",
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """A file, and where its next and its present content wait beside it; ``back`` exists while it is put back."""

    change: Change
    path: Path
    new: Path
    old: Path
    back: Path

    def foreign(self, path: Path) -> bool:
        """Whether somebody else's content, which took no part in the transaction, was displaced to ``path``."""
        try:
            return sha256(path.read_bytes()) not in (self.change.before, self.change.after)
        except FileNotFoundError:
            return False


def _places(pending: Pending) -> list[_Place]:
    found = []
    for number, change in enumerate(pending.changes):
        path = safe(Path(pending.root), change.file)
        mark = f"{_MARK}{pending.id}-{number}"
        found.append(_Place(change, path, *(path.with_name(f"{mark}.{end}") for end in ("new", "old", "back"))))
    return found


def _tidy(place: _Place, disk: Disk) -> None:
    for work in (place.new, place.old, place.back):
        disk.remove(work)
        held = work.with_name(f"{work.name}.held")
        if held.exists():
            disk.remove(held)


def _stage(journal: Journal, place: _Place, disk: Disk) -> None:
    for name, work in ((place.change.after, place.new), (place.change.before, place.old)):
        if name is not None:
            disk.write(work, journal.blob(name), place.change.owner)


def _forward(root: Path, place: _Place, disk: Disk) -> None:
    if (found := current(root, place.change.file)) != place.change.before:
        raise _disturbed(root, place.change.file, found)
    if place.change.after is None:
        disk.remove(place.path)
    elif place.change.before is None:
        disk.rename(place.new, place.path)
    elif not _exchanged(place.new, place, place.change.before, disk):
        raise _disturbed(root, place.change.file, current(root, place.change.file))
    _forget_bytecode(place.path, disk)


def _exchanged(source: Path, place: _Place, expected: str | None, disk: Disk) -> bool:
    """Put ``source`` at its place if that still holds the expected content; False, and nothing changed, if not.

    What was there is looked at after the exchange: a package manager may write between a look and a rename.
    """
    try:
        disk.exchange(source, place.path)
    except FileNotFoundError:
        return False
    if sha256(source.read_bytes()) == expected:
        return True
    with contextlib.suppress(FileNotFoundError):  # it was taken away since, which stands too
        disk.exchange(source, place.path)
    return False


def _backward(journal: Journal, place: _Place, disk: Disk) -> bool:
    """Put the content from before back; False where somebody else wrote in the same instant, and wins."""
    if place.change.before is None:
        disk.remove(place.path)
        return True
    if not (place.old.is_file() and sha256(place.old.read_bytes()) == place.change.before):
        disk.remove(place.old)
        disk.write(place.old, journal.blob(place.change.before), place.change.owner)
    if place.change.after is None:
        disk.rename(place.old, place.path)
        return True
    disk.rename(place.old, place.back)
    return _exchanged(place.back, place, place.change.after, disk)


def _forget_bytecode(path: Path, disk: Disk) -> None:
    """Byte-code of another content can look current when size and second-resolution time happen to agree."""
    if path.suffix == ".py":
        for cached in sorted((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc")):
            disk.remove(cached)


def _back(journal: Journal, pending: Pending, disk: Disk) -> Outcome:
    """Put every file back that the transaction changed."""
    done: list[str] = []
    disturbed: list[str] = []
    for place in reversed(_places(pending)):
        change, found = place.change, current(Path(pending.root), place.change.file)
        displaced = place.back if found == change.before else place.new if found == change.after else None
        if displaced and found is not None and change.before != change.after and place.foreign(displaced):
            # killed between an exchange and the look at what it brought
            disk.exchange(displaced, place.path)
            disturbed.append(change.file)
        elif found == change.after != change.before:
            (done if _backward(journal, place, disk) else disturbed).append(change.file)
        elif found != change.before:
            disturbed.append(change.file)
        _tidy(place, disk)
        _forget_bytecode(place.path, disk)
    journal.end(pending, "taken back", disturbed=disturbed)
    return Outcome("back", tuple(done), tuple(disturbed), pending.what)


def recover(journal: Journal, disk: Disk) -> Outcome:
    """Finish what was cut short: forward if the new stack was written already, else back. May be cut short itself."""
    journal.tidy()
    pending = journal.pending()
    if pending is None:
        return Outcome("nothing")
    if journal.committed(pending):
        _finish(journal, pending, disk)
        return Outcome("forward", tuple(change.file for change in pending.changes), (), pending.what)
    return _back(journal, pending, disk)
