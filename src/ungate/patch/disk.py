"""The few file-system steps that a transaction is made of, one method a step.

A transaction may stop after any of them: the process is killed, the disk is full, a permission is missing. Tests put
an object of this shape in its place that stops there.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Disk", "Owner"]

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
"""From fcntl.h and linux/fs.h."""
_CANNOT = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM})


def _swapped(one: Path, other: Path) -> bool:
    """renameat2(2) with RENAME_EXCHANGE; False where the C library or the file system has none."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
        return True
    error = ctypes.get_errno()
    if error in _CANNOT:
        return False
    raise OSError(error, os.strerror(error), str(other))


@dataclass(frozen=True, slots=True)
class Owner:
    """Permission bits, user and group of a file."""

    mode: int
    uid: int
    gid: int

    @classmethod
    def of(cls, path: Path) -> Owner:
        state = path.lstat()
        return cls(state.st_mode & 0o7777, state.st_uid, state.st_gid)


class Disk:
    """Steps that are durable when they return, except :meth:`write`, which needs :meth:`rename` to count."""

    def folder(self, path: Path) -> None:
        """Make a folder and its parents."""
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, data: bytes, owner: Owner | None = None) -> None:
        """A new file with this content, flushed to the device; the modification time is now."""
        with path.open("xb") as stream:
            stream.write(data)
            stream.flush()
            if owner:
                os.fchmod(stream.fileno(), owner.mode)
                state = os.fstat(stream.fileno())
                if (state.st_uid, state.st_gid) != (owner.uid, owner.gid):
                    os.fchown(stream.fileno(), owner.uid, owner.gid)
            self._sync(stream.fileno())

    def rename(self, source: Path, place: Path) -> None:
        """Put ``source`` at ``place`` in one step: a new inode, whatever other names the old one has."""
        source.replace(place)
        self._flush(place.parent)

    def exchange(self, source: Path, place: Path) -> None:
        """Let two files of one folder change places in one step, so that ``source`` holds what was at ``place``.

        Where the file system has no such step, the file at ``place`` is held by a second name while ``source`` is
        renamed over it: then something written in between is not seen. FileNotFoundError where ``place`` is missing.
        """
        if not _swapped(source, place):
            held = source.with_name(f"{source.name}.held")
            os.link(place, held)
            source.replace(place)
            held.replace(source)
        self._flush(place.parent)

    def remove(self, path: Path) -> None:
        """Remove a file; that it is gone already is no error."""
        if os.path.lexists(path):  # a read-only file system refuses even what is not there
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                self._flush(path.parent)

    def append(self, path: Path, line: bytes) -> None:
        """Add one line to the journal's log."""
        with path.open("ab") as stream:
            stream.write(line)
            stream.flush()
            self._sync(stream.fileno())

    def _sync(self, handle: int) -> None:
        os.fsync(handle)

    def _flush(self, folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._sync(handle)
        finally:
            os.close(handle)
