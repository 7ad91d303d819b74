"""Python's garbage collector, held back while syntax trees pile up.

The trees and scopes of a few hundred files are millions of objects that all stay in use. Each full collection walks
through all of them and frees nothing: it takes longer than parsing them.
"""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]

atexit.register(gc.freeze)  # the interpreter's last collection would walk through them once more


@contextmanager
def uncollected() -> Iterator[None]:
    """No automatic collection while the block runs; afterwards as before."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
