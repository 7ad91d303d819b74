"""The frozen records that cross stages.

A stage is a function from these records to these records. Nothing in this module reads a file,
starts a process or knows another module of ungate except :mod:`ungate.errors`.
"""

from __future__ import annotations

from ungate.model.campaigns import DECIDING, Arm, Cell, Decision, Recipe, Sample, Task, Variant, Verdict
from ungate.model.findings import Finding, KnownMatch, KnownResult
from ungate.model.gates import Chain, Form, Gate, Hop, Reached, ScanResult, Sense, Status, Unread
from ungate.model.patches import Artifact, Edit, Series
from ungate.model.policies import Place, Policy, PolicyRow
from ungate.model.targets import KNOWN_ARCHS, ArchSet, Target

__all__ = [
    "DECIDING",
    "KNOWN_ARCHS",
    "ArchSet",
    "Arm",
    "Artifact",
    "Cell",
    "Chain",
    "Decision",
    "Edit",
    "Finding",
    "Form",
    "Gate",
    "Hop",
    "KnownMatch",
    "KnownResult",
    "Place",
    "Policy",
    "PolicyRow",
    "Reached",
    "Recipe",
    "Sample",
    "ScanResult",
    "Sense",
    "Series",
    "Status",
    "Target",
    "Task",
    "Unread",
    "Variant",
    "Verdict",
]
