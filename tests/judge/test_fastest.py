"""The fastest way beyond the noise; what is used today stays where nothing is clear."""

from __future__ import annotations

import math
import random

from ungate.judge.fastest import choose

SLOW = (20.0, 20.2, 19.9, 20.1, 20.0, 20.3)
FAST = (10.0, 10.1, 9.9, 10.0, 10.1, 10.0)


def test_nothing_measured() -> None:
    assert choose({}, "nccl") is None


def test_the_fastest_alone() -> None:
    choice = choose({"nccl": SLOW, "other": FAST}, "nccl")
    assert choice is not None and choice.use == "other" and choice.clear
    assert choice.ratio is not None and math.isclose(choice.ratio, 2.0, rel_tol=0.02)
    assert choice.low is not None and choice.low > 1.9
    assert "50 % less time than nccl" in choice.reason


def test_the_baseline_wins_ties_and_wins_when_it_is_faster() -> None:
    tie = choose({"nccl": SLOW, "other": tuple(reversed(SLOW))}, "nccl")
    assert tie is not None and (tie.use, tie.tied) == ("nccl", ("other",))
    assert tie.reason == "no difference between nccl and other"
    faster = choose({"nccl": FAST, "other": SLOW}, "nccl")
    assert faster is not None and (faster.use, faster.tied, faster.reason) == ("nccl", (), "nccl is the fastest")


def test_less_than_the_least_effect_is_a_tie_however_sure() -> None:
    choice = choose({"nccl": [10.1] * 6, "other": [10.0] * 6}, "nccl")
    assert choice is not None and choice.use == "nccl"
    told = choose({"nccl": [10.1] * 6, "other": [10.0] * 6}, "nccl", min_effect=0.005)
    assert told is not None and told.use == "other"


def test_two_that_cannot_be_told_apart_both_faster_than_the_baseline() -> None:
    choice = choose({"nccl": SLOW, "a": FAST, "b": tuple(reversed(FAST))}, "nccl")
    assert choice is not None and not choice.clear
    assert {choice.use, *choice.tied} == {"a", "b"}
    assert choice.low is not None and choice.low > 1


def test_without_a_verified_baseline_it_is_said() -> None:
    choice = choose({"other": FAST}, "nccl")
    assert choice is not None and (choice.use, choice.ratio) == ("other", None)
    assert choice.reason == "nccl has no verified time to compare with"


def test_a_drift_that_all_share_does_not_hide_a_difference() -> None:
    drift = [1 + 0.2 * number for number in range(6)]
    choice = choose({"nccl": [10 * each for each in drift], "other": [9 * each for each in drift]}, "nccl")
    assert choice is not None and choice.use == "other"


def test_one_round_decides_nothing() -> None:
    choice = choose({"nccl": [20.0], "other": [10.0]}, "nccl")
    assert choice is not None and choice.use == "nccl"


def test_noise_alone_seldom_moves_the_baseline() -> None:
    draws = random.Random(1)
    moved = 0
    for _ in range(300):
        times = {name: [10 * math.exp(draws.gauss(0, 0.1)) for _ in range(8)] for name in ("nccl", "a", "b", "c", "d")}
        choice = choose(times, "nccl")
        assert choice is not None
        moved += choice.use != "nccl"
    assert moved / 300 < 0.05
