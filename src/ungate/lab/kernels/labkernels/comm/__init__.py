"""Collective operations between the processes of one host."""

from __future__ import annotations

from .allreduce import TwoShotWorkspace, allreduce_two_shot
from .allreduce_fusion import FusionWorkspace, allreduce_fusion

__all__ = ["FusionWorkspace", "TwoShotWorkspace", "allreduce_fusion", "allreduce_two_shot"]
