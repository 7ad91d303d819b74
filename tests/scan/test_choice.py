"""A choice of numbers by architecture in C++ is told as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ungate.host.packages import below
from ungate.scan import scan


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("cfg.numAttrs = SM >= 90 ? 2 : 0;", "choice"),
        ("launch(x, (sm >= 90) ? 128 : 64, s);", "choice"),
        ("auto f = sm >= 90 ? &fused : &plain;", "test"),
        ("bool on = sm >= 90 ? true : false;", "test"),
        ("if (sm >= 90) { n = 2; }", "test"),
    ],
)
def test_a_choice_in_host_code(tmp_path: Path, line: str, role: str) -> None:
    top = tmp_path / "p"
    top.mkdir()
    (top / "a.cu").write_text(f"void f(int sm, int SM) {{\n  {line}\n}}\n")
    (gate,) = scan(below(top), use_cache=False, jobs=1).gates
    assert (gate.line, gate.role, bool(gate.note)) == (2, role, role == "choice")
