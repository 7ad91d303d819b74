from __future__ import annotations

from itertools import islice, pairwise

import pytest

from ungate.measure.arrivals import ClosedLoop, FixedRate, PoissonRate


def test_a_ramp_spreads_the_slots() -> None:
    assert ClosedLoop(4, 2.0).starts() == [0.0, 0.5, 1.0, 1.5]
    assert ClosedLoop(3, 0.0).starts() == [0.0, 0.0, 0.0]


def test_rates_hold_over_many_requests() -> None:
    assert list(islice(FixedRate(10.0).due(1), 3)) == pytest.approx([0.0, 0.1, 0.2])
    dues = list(islice(PoissonRate(50.0).due(3), 5000))
    gaps = [later - earlier for earlier, later in pairwise(dues)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(0.02, rel=0.05)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation == pytest.approx(mean, rel=0.1), "exponential gaps deviate by their mean"
