from __future__ import annotations

import numpy as np
import pytest
from calibration import NOISES, Noise, campaign

from ungate.model import Decision


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize("pairs", [2, 6])
def test_no_effect_is_seldom_called_one(noise: Noise, pairs: int) -> None:
    random = np.random.default_rng(7)
    decisions = [campaign(random, noise, pairs, 0.0) for _ in range(500)]
    wrong = sum(decision is not Decision.INCONCLUSIVE for decision in decisions)
    # At a true rate of 5 % the count over 500 stays below 36 in 98.6 % of all seeds (binomial).
    assert wrong < 36


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("pairs", [2, 3])
def test_a_prior_makes_no_effects(noise: Noise, scale: float, pairs: int) -> None:
    """Also where the machine was half as noisy when it was measured."""
    random = np.random.default_rng(11)
    decisions = [campaign(random, noise, pairs, 0.0, scale) for _ in range(500)]
    assert sum(decision is not Decision.INCONCLUSIVE for decision in decisions) < 36


def test_ten_pairs_and_the_bootstrap_make_no_effects_either() -> None:
    random = np.random.default_rng(5)
    decisions = [campaign(random, NOISES[3], 10, 0.0) for _ in range(500)]
    assert sum(decision is not Decision.INCONCLUSIVE for decision in decisions) < 36


def test_a_tenth_is_seen_by_six_quiet_pairs() -> None:
    random = np.random.default_rng(7)
    decisions = [campaign(random, NOISES[0], 6, 0.10) for _ in range(200)]
    assert decisions.count(Decision.KEEP) > 180
