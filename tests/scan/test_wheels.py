"""What the scan makes of real wheels: tables, bounds and platform objects of SGLang 0.5.23."""

from __future__ import annotations

import pytest

from ungate.host.index import fetch
from ungate.host.packages import below
from ungate.scan import scan

pytestmark = [pytest.mark.wheels, pytest.mark.timeout(900)]

_SYMM = "sglang/srt/distributed/device_communicators/"
_HOPPER_ON = [90, 100, 103, 107]


def test_sglang() -> None:
    found = scan(below(fetch("sglang==0.5.23")))
    gates = {(gate.file, gate.condition): gate for gate in found.gates}
    passes = {place: [*gate.passes] for place, gate in gates.items() if gate.passes.decided}
    table = "TORCH_SYMM_MEM_ALL_REDUCE_MAX_SIZES keyed by 9, 10"
    assert passes[_SYMM + "all_reduce_utils.py", table] == _HOPPER_ON
    assert passes[_SYMM + "torch_symm_mem.py", "supported_max_sizes is None"] == _HOPPER_ON
    asked = [gate for gate in found.gates if gate.condition.startswith("should_deepgemm_weight_requant_ue8m0(")]
    assert len(asked) >= 5
    assert {tuple(gate.passes) for gate in asked} == {(100, 103, 107)}
    fusion = [
        gate
        for gate in found.gates
        if gate.file.endswith("arg_groups/overrides.py") and "prefer_custom_dsv41 and" in gate.condition
    ]
    assert _HOPPER_ON in [[*gate.passes] for gate in fusion]
