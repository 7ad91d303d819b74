"""Keep, revert or inconclusive: the design of a comparison and its verdict, one cell at a time."""

from ungate.judge.design import Plan, order, plan
from ungate.judge.guards import Guard, failed
from ungate.judge.interval import Interval, paired
from ungate.judge.noise import floor
from ungate.judge.verdict import decide

__all__ = ["Guard", "Interval", "Plan", "decide", "failed", "floor", "order", "paired", "plan"]
