"""Writing a file so that a reader sees the old content or the new, never half of it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

__all__ = ["write"]


def write(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path`` in one step; the folder is made if need be, and nothing else is left behind.

    An OSError names the file, also where the system's own does not: which disk is full is what has to be known.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        if isinstance(error, OSError) and error.filename is None and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
