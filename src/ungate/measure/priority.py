"""The load client's place in the queue for a core: before the server whose every core it shares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ALLOW", "first_in_line"]

ALLOW = "leave the load client a core of its own, or allow it real-time scheduling (root, or CAP_SYS_NICE)"
"""What helps against a client that waits for a core."""


@contextmanager
def first_in_line() -> Iterator[bool]:
    """Schedule the calling thread round-robin in real time (sched(7), the lowest such priority); yield whether it may.

    Workers that poll with ``sched_yield`` on every core kept an ordinary client waiting for 1.2 s at the 99th
    percentile on 2 cores, 1 ms so. Threads and children started meanwhile are ordinary again, and so is this one
    afterwards. Linux keeps 5 % of the time for the others, should this thread never sleep.
    """
    try:
        before = os.sched_getscheduler(0), os.sched_getparam(0)
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    except (AttributeError, OSError):
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, *before)
