"""Private copies of package folders: blocks shared by the file system where it can, never a hard link."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

__all__ = ["copy_trees"]

_FICLONE = 0x40049409
"""ioctl request of linux/fs.h: share the blocks of one file with another (btrfs, xfs, bcachefs)."""

_SKIPPED = frozenset({"__pycache__", ".git"})
_CANNOT = frozenset({errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EPERM})


class _Copier:
    def __init__(self) -> None:
        self.reflinks = True

    def file(self, pair: tuple[str, str]) -> None:
        source, destination = pair
        with open(source, "rb", buffering=0) as reading, open(destination, "xb", buffering=0) as writing:  # noqa: PTH123
            state = os.fstat(reading.fileno())
            if not (self.reflinks and self._clone(reading.fileno(), writing.fileno())):
                left = state.st_size
                while left > 0 and (sent := os.sendfile(writing.fileno(), reading.fileno(), None, left)):
                    left -= sent
            os.fchmod(writing.fileno(), (state.st_mode & 0o777) | 0o200)
            # ninja and pip compare modification times: what is not edited keeps its own
            os.utime(writing.fileno(), ns=(state.st_atime_ns, state.st_mtime_ns))

    def _clone(self, reading: int, writing: int) -> bool:
        try:
            fcntl.ioctl(writing, _FICLONE, reading)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            self.reflinks = False
            return False
        return True


def _walk(source: str, destination: str, files: list[tuple[str, str]]) -> None:
    os.mkdir(destination)  # noqa: PTH102
    with os.scandir(source) as entries:
        for entry in entries:
            into = f"{destination}/{entry.name}"
            if entry.name in _SKIPPED:
                continue
            if entry.is_symlink() and entry.is_dir():
                Path(into).symlink_to(os.path.realpath(entry.path))
            elif entry.is_dir():
                _walk(entry.path, into, files)
            elif entry.is_file():
                files.append((entry.path, into))


def copy_trees(pairs: Iterable[tuple[Path, Path]]) -> int:
    """Copy each (source, destination), a folder without byte-code or one file; the result is the number of files.

    Modes and modification times are kept, files become writable for the owner. A link to a folder stays a link (to
    an absolute path), a link to a file becomes a file.
    """
    files: list[tuple[str, str]] = []
    for source, destination in pairs:
        destination.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            if destination.is_dir():
                shutil.rmtree(destination)
            _walk(str(source), str(destination), files)
        else:
            files.append((str(source), str(destination)))
    copier = _Copier()
    with ThreadPoolExecutor(min(4, (os.cpu_count() or 1) + 1)) as pool:
        for _ in pool.map(copier.file, files, chunksize=128):
            pass
    return len(files)
