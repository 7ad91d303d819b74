"""From flag to kernel: the chain of gates of one feature."""

from __future__ import annotations

from ungate.trace.ask import ask
from ungate.trace.chain import Trace, chain

__all__ = ["Trace", "ask", "chain"]
