"""Whether the process that carries a run out is still there.

A process that is killed writes nothing into the ledger any more. But it held a lock on a file of the run's folder, and
the kernel gives a lock back when its process ends, however it ends. A process number with its start time would tell the
same, but not to somebody who looks from another container.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

__all__ = ["LOCK", "gone"]

LOCK = "run.lock"
"""The file in a run's folder that its process holds locked."""


def gone(folder: str) -> bool:
    """Whether the run of this folder was begun on this machine and nobody carries it out any more.

    False where the folder or its lock is not here, or may not be opened: then nothing is known.
    """
    if not folder:
        return False
    try:
        with (Path(folder) / LOCK).open("rb") as stream:
            # Shared, and given back at once: whoever takes the run up at this moment waits a little for its own.
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
