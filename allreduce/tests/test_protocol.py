from __future__ import annotations

import pytest

from ungate_allreduce.layout import SENTINEL_GENERATIONS
from ungate_allreduce.protocol import MUTANTS, PROTOCOLS, Protocol, explore

SLOW = (
    "LL8, 4 ranks",
    "LL8, 2 ranks, changing sizes",
    "F16, 2 ranks, changing sizes",
    "F16, 3 ranks",
    "F16, 4 ranks",
    "LL8, two shots, 3 ranks, a line each",
    "F16, two shots, 2 ranks, a line each",
)
QUICK = [p for p in PROTOCOLS if p.name not in SLOW]
LONG = [p for p in PROTOCOLS if p not in QUICK]

STATES = {
    "LL8, 2 ranks, one line": 168,
    "LL8, 3 ranks": 616,
    "F16, 2 ranks, one line": 2538,
    "data then flag, fenced, 2 ranks": 512,
    "LL8, 2 ranks, changing sizes": 34452,
    "LL8, 4 ranks": 7768,
    "F16, 2 ranks, changing sizes": 84894,
    "F16, 3 ranks": 29657,
    "F16, 4 ranks": 1512864,
    "LL8, two shots, 2 ranks, a line each": 384,
    "LL8, two shots, 2 ranks, changing sizes": 7000,
    "LL8, two shots, 3 ranks, one of them an owner": 344,
    "LL8, two shots, 3 ranks, a line each": 81984,
    "LL8, two shots, 4 ranks, one of them an owner": 1528,
    "F16, two shots, 2 ranks, one of them an owner": 1323,
    "F16, two shots, 2 ranks, a line each": 87492,
    "F16, two shots, 2 ranks, changing sizes": 33308,
    "F16, two shots, 3 ranks, one of them an owner": 20243,
}


@pytest.mark.parametrize("protocol", QUICK, ids=lambda p: p.name)
def test_no_interleaving_accepts_a_wrong_line_or_gets_stuck(protocol: Protocol) -> None:
    verdict = explore(protocol)
    assert verdict.problem == ""
    assert verdict.states > 100
    if protocol.name in STATES:
        assert verdict.states == STATES[protocol.name]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("protocol", LONG, ids=lambda p: p.name)
def test_larger_searches(protocol: Protocol) -> None:
    """One to ten minutes each, four ranks of F16 about an hour and 5 GB (13 minutes where mypyc compiled the model)."""
    verdict = explore(protocol)
    assert verdict.problem == ""
    assert verdict.states == STATES[protocol.name]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda p: p.name)
def test_every_mutant_is_found(mutant: Protocol) -> None:
    verdict = explore(mutant)
    assert verdict.problem


def test_the_model_has_the_kernels_generations() -> None:
    assert all(p.generations == SENTINEL_GENERATIONS for p in PROTOCOLS if p.format == "sentinel")
    assert all(p.generations == 2 for p in PROTOCOLS if p.format == "tagged")


def test_a_search_that_grows_too_large_says_so() -> None:
    with pytest.raises(MemoryError, match="more than 10 states"):
        explore(PROTOCOLS[0], limit=10)
