"""Keeping in the cache what can be made again, and remembering why that failed: no answer is lost by a full disk."""

from __future__ import annotations

from pathlib import Path

from ungate.errors import shell
from ungate.host.files import write
from ungate.host.folders import cache_dir

__all__ = ["keep", "unkept", "warned"]

_failed: list[str] = []


def keep(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` in the cache; where that fails, the command goes on and :func:`warned` says so."""
    try:
        write(path, content)
    except OSError as error:
        unkept(error)


def unkept(error: OSError) -> None:
    """Remember that the cache could not be written."""
    _failed.append(error.strerror or str(error))


def warned() -> str:
    """What to say, once, of the cache that could not be written since the last call; empty where it could be."""
    if not _failed:
        return ""
    why = _failed[0]
    _failed.clear()
    folder = cache_dir()
    return (
        f"The cache in {folder} could not be written ({why}): the result is whole, but is worked out anew each time.\n"
        f"Make room there, or name another folder: df -h {shell(folder)}; export UNGATE_CACHE_DIR=DIR"
    )
