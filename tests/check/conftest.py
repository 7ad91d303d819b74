"""Findings for one C++ file that is really scanned, as the only step of a chain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.check import check
from ungate.host.packages import below
from ungate.model import Chain, Finding, Hop, Status, Target
from ungate.scan import scan

Ask = Callable[..., tuple[Finding, ...]]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """``ask(rule, source, target=120, opened=0)``; ``opened`` counts the closed gates, in order, that are opened."""

    def find(rule: str, source: str, target: int = 120, opened: int = 0, name: str = "k.cuh") -> tuple[Finding, ...]:
        folder = tmp_path / "kernels"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(source)
        packages, aim = below(folder), Target(target)
        gates = scan(packages, jobs=1, use_cache=False).gates
        closed = [gate.id for gate in gates if gate.status(aim) is Status.CLOSED]
        chain = Chain("f", aim, (Hop("kernel", f"kernels/{name}", 1, "k", True, gates),))
        found = check(chain, aim, packages, opened=frozenset(closed[:opened]))
        return tuple(finding for finding in found if finding.rule == rule)

    return find
