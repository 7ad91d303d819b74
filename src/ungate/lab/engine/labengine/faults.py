"""Faults on demand, so that whoever watches a server can be tried out.

``LAB_FAULT`` holds one of these; it befalls the last rank:

``die-at-start``     exits with code 17 before it is ready
``hang-at-start``    never becomes ready
``slow-start:S``     becomes ready S seconds late
``die-after:N``      is killed in its Nth step with work
``hang-after:N``     never finishes its Nth step with work
``nan-after:N``      computes NaN from its Nth step with work on
``slow-steps:S``     is busy for S seconds more in every step with work, and its peers wait

Behind one that befalls steps, ``@R`` lets only those for at least R requests at once count: ``slow-steps:0.5@4``.
"""

from __future__ import annotations

import os
import re
import signal
import time

from labengine.models import Array

__all__ = ["Fault"]

_FORM = r"(die-at-start|hang-at-start)|(slow-start|slow-steps):(\d+(?:\.\d+)?)|(die-after|hang-after|nan-after):(\d+)"
_ROWS = r"(?:@(\d+))?"


class Fault:
    """The fault of one rank; none where ``LAB_FAULT`` is unset or the rank is not the last."""

    def __init__(self, rank: int, world_size: int) -> None:
        text = os.environ.get("LAB_FAULT", "") if rank == world_size - 1 else ""
        match = re.fullmatch(f"(?:{_FORM}){_ROWS}", text)
        if text and match is None:
            raise ValueError(f"LAB_FAULT={text!r} is not a fault; labengine/faults.py lists them.")
        groups = match.groups() if match else (None,) * 6
        self.kind = groups[0] or groups[1] or groups[3] or ""
        self.amount = float(groups[2] or groups[4] or 0)
        self._rows = int(groups[5] or 1)
        self._steps = 0

    def at_start(self) -> None:
        """Befall the rank before it says that it is ready."""
        if self.kind == "die-at-start":
            raise SystemExit(17)
        if self.kind == "hang-at-start":
            _hang()
        if self.kind == "slow-start":
            time.sleep(self.amount)

    def in_step(self, logits: Array) -> None:
        """Befall the rank in a step with work, before its logits are seen."""
        if len(logits) < self._rows:
            return
        self._steps += 1
        if self.kind.endswith("-after") and self._steps < self.amount:
            return
        if self.kind == "die-after":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "hang-after":
            _hang()
        if self.kind == "nan-after":
            logits.fill(float("nan"))
        if self.kind == "slow-steps":
            end = time.monotonic() + self.amount
            while time.monotonic() < end:
                pass


def _hang() -> None:
    while True:
        time.sleep(3600)
