"""The targets that a list of compiler flags names."""

from __future__ import annotations

import re

from ungate.source.python.capability import archs_of_name
from ungate.source.python.values import Value

__all__ = ["flag_archs"]

_FLAG = re.compile(r"(?:arch|code)[=:, ]+\[?\"?(?:sm|compute|lto)_([0-9]{2,3}[af]?)\b")


def flag_archs(value: Value) -> frozenset[int] | None:
    """The architectures that a list of compiler flags names as targets; None where it names none."""
    if not isinstance(value, list | tuple):
        return None
    found: set[int] = set()
    seen = False
    for item in value:
        if isinstance(item, str) and ("arch" in item or "code" in item):
            for target in _FLAG.findall(item):
                archs = archs_of_name(f"sm_{target}")
                if archs is not None:
                    seen = True
                    found |= archs
    return frozenset(found) if seen else None
