"""The quiet second gates: what else must hold before a line is come to, with the tables that decide it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ungate.trace import Trace
from ungate.trace.conditions import tests_before as before

Of = Callable[..., Trace]

CODE = """
from lib.sizes import LIMITS, MOST

class Fused:
    _SUPPORTED_WORLD_SIZES = [2, 4, 8]

    def may(self, x, world_size):
        if world_size not in self._SUPPORTED_WORLD_SIZES:
            return False
        limit = LIMITS.get(world_size)
        if limit is None:
            return False
        if x.nbytes > limit:
            return False
        assert x.shape[0] <= MOST
        rows = KNOWN[world_size]
        if not rows:
            return False
        return self.go(x)
"""
SIZES = "MOST = 2048\nLIMITS = {2: 64 * 1024, 4: 32 * 1024}\nOTHER = compute()\n"


def test_the_message_of_an_assert_is_written_where_it_does_not_hold(trace: Of) -> None:
    text = (
        "def make(runner):\n    assert (\n        runner.major == 8 and runner.plain\n    ) or runner.major == 9, (\n"
    )
    text += '        "needs sm_80 to sm_90"\n    )\n    return go(runner)\n'
    made = trace({"lib/made.py": text})
    module = made.graph.names.module("lib.made")
    assert module is not None
    scope = module.scopes["make"]
    assert [told for _, told in before(made.graph.names, scope, 5)] == [
        "not (runner.major == 8 and runner.plain)",
        "not (runner.major == 9)",
    ]
    assert [told for _, told in before(made.graph.names, scope, 7)] == [
        "runner.major == 8 and runner.plain or runner.major == 9"
    ]


@pytest.mark.parametrize(
    "told",
    [
        "not (world_size not in self._SUPPORTED_WORLD_SIZES) (self._SUPPORTED_WORLD_SIZES = [2, 4, 8])",
        "not (limit is None) (limit = LIMITS.get(world_size), LIMITS = {2: 64 * 1024, 4: 32 * 1024})",
        "not (x.nbytes > limit) (limit = LIMITS.get(world_size), LIMITS = {2: 64 * 1024, 4: 32 * 1024})",
        "x.shape[0] <= MOST (MOST = 2048)",
        "rows (rows = KNOWN[world_size])",
    ],
)
def test_a_condition_is_told_with_its_table(trace: Of, told: str) -> None:
    made = trace({"lib/fused.py": CODE, "lib/sizes.py": SIZES})
    module = made.graph.names.module("lib.fused")
    assert module is not None
    scope = module.scopes["Fused.may"]
    texts = [text for _, text in before(made.graph.names, scope, 19)]
    assert told in texts, texts
