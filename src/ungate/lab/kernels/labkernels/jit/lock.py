"""One builder at a time, across processes."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["exclusive"]


@contextmanager
def exclusive(path: Path, deadline_s: float = 300.0) -> Iterator[None]:
    """Hold the lock file ``path``; the kernel drops it with the process. TimeoutError after ``deadline_s``."""
    end = time.monotonic() + deadline_s
    with path.open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise TimeoutError(f"Another process has held {path} for {deadline_s:.0f} s.") from None
                time.sleep(0.02)
        yield
