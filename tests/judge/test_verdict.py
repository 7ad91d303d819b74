from __future__ import annotations

import math

import pytest

from ungate.judge import Guard, decide, floor, order, paired, plan
from ungate.judge.interval import Prior
from ungate.model import Cell, Decision

CELL = Cell(4, 64, 32)
OUTPUTS = Guard("outputs", True, "equal on 12 prompts")
ACTIVE = Guard("activation", True, "1,204 fused calls")


def test_no_reading_is_inconclusive() -> None:
    assert decide(CELL, []).decision is Decision.INCONCLUSIVE


def test_one_pair_has_no_interval() -> None:
    verdict = decide(CELL, [0.02])
    assert verdict.decision is Decision.INCONCLUSIVE
    assert verdict.low is None


def test_two_quiet_pairs_decide_a_collapse_but_not_a_tenth() -> None:
    assert decide(CELL, [0.021, 0.023]).decision is Decision.REVERT
    assert decide(CELL, [1.08, 1.12]).decision is Decision.INCONCLUSIVE


def test_keep_needs_every_guard() -> None:
    ratios = [1.20, 1.22, 1.19, 1.21]
    assert decide(CELL, ratios, [OUTPUTS, ACTIVE]).decision is Decision.KEEP
    wrong = decide(CELL, ratios, [Guard("outputs", False, "3 of 12 prompts differ"), ACTIVE])
    assert wrong.decision is Decision.REVERT and "3 of 12" in wrong.reason
    never = decide(CELL, ratios, [OUTPUTS, Guard("activation", False, "0 fused calls", Decision.INCONCLUSIVE)])
    assert never.decision is Decision.INCONCLUSIVE and "0 fused calls" in never.reason
    unproved = decide(CELL, ratios, [OUTPUTS, Guard("activation", None, "no counter")])
    assert unproved.decision is Decision.INCONCLUSIVE and "no counter" in unproved.reason


def test_unproved_guard_does_not_hide_a_revert() -> None:
    assert decide(CELL, [0.5, 0.51, 0.5], [Guard("activation", None, "no counter")]).decision is Decision.REVERT


def test_below_the_noise_of_the_same_arm_nothing_is_kept() -> None:
    ratios = [1.05, 1.051, 1.049, 1.05]
    assert decide(CELL, ratios).decision is Decision.KEEP
    assert decide(CELL, ratios, noise=1.08).decision is Decision.INCONCLUSIVE


def test_missing_reading_never_enters_an_interval() -> None:
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError):
            paired([1.0, bad])


def test_interval_of_a_known_sample() -> None:
    # logs 0.1, 0.2, 0.3: mean 0.2, s = 0.1, t(0.975, 2) = 4.302653
    interval = paired([math.exp(x) for x in (0.1, 0.2, 0.3)])
    assert interval.low is not None
    assert math.log(interval.low) == pytest.approx(0.2 - 4.302653 * 0.1 / math.sqrt(3), abs=1e-6)


def test_prior_gives_one_pair_an_interval() -> None:
    interval = paired([0.5], prior=Prior(spread=0.05, weight=6))
    assert interval.high is not None and interval.high < 0.65


def test_a_prior_counts_with_caution_and_only_while_there_are_few_pairs() -> None:
    prior = Prior(spread=0.02, weight=6)
    two, alone = paired([1.2, 1.21], prior=prior), paired([1.2, 1.21])
    assert two.spread is not None and alone.spread is not None
    assert two.spread == pytest.approx(math.sqrt((alone.spread**2 + 6 * 0.04**2) / 7))
    assert two.low is not None and two.low > 1
    four = [1.2, 1.21, 1.19, 1.2]
    assert paired(four, prior=prior) == paired(four)


def test_a_machine_that_has_become_noisier_has_no_prior() -> None:
    wild = [0.5, 1.6, 1.1]
    assert paired(wild, prior=Prior(spread=0.01, weight=6)) == paired(wild)


def test_from_ten_pairs_on_the_interval_holds_the_bootstrap_too() -> None:
    skewed = [1.01, 1.0, 1.02, 1.01, 0.99, 1.0, 1.01, 1.0, 0.7]
    nine, ten = paired(skewed), paired([*skewed, 1.0])
    assert not nine.bootstrap and ten.bootstrap
    logs = [math.log(ratio) for ratio in (*skewed, 1.0)]
    mean = sum(logs) / 10
    spread = math.sqrt(sum((value - mean) ** 2 for value in logs) / 9)
    half = 2.262157 * spread / math.sqrt(10)  # t(0.975, 9)
    assert ten.low is not None and ten.high is not None
    # One start that is far below pulls the bootstrap's lower end beyond Student's.
    assert math.log(ten.low) < mean - half - 0.005 and math.log(ten.high) == pytest.approx(mean + half, abs=1e-6)
    assert paired([*skewed, 1.0]) == ten
    assert not paired([1.1] * 12).bootstrap


def test_three_arms_are_started_in_turn_and_back() -> None:
    assert order(2, ("baseline", "candidate", "newer")) == (
        "baseline",
        "candidate",
        "newer",
        "newer",
        "candidate",
        "baseline",
    )
    chosen = plan(min_effect=0.1, spread=0.02, cells=4, arms=3)
    assert chosen.starts == 3 * chosen.pairs


def test_what_was_measured_here_makes_a_smaller_plan() -> None:
    assumed, measured = (plan(min_effect=0.1, spread=0.02, weight=weight) for weight in (0.0, 6.0))
    assert measured.pairs < assumed.pairs and "measured here" in measured.sentence


def test_noise_floor_follows_neighbours_not_drift() -> None:
    assert floor([[100.0], [50.0]]) is None
    steady = floor([[100.0, 101.0, 102.0, 103.0]])
    assert steady is not None and 1.005 < steady < 1.02


def test_order_cancels_a_linear_drift() -> None:
    sequence = order(4)
    assert sequence[:8] == ("baseline", "candidate", "candidate", "baseline") * 2
    places = {arm: [i for i, name in enumerate(sequence) if name == arm] for arm in set(sequence)}
    assert sum(places["baseline"]) == sum(places["candidate"])


def test_plan_says_whether_it_can_decide() -> None:
    two = plan(min_effect=0.05, spread=0.04, pairs=2)
    assert not two.can_decide and "needs more pairs" in two.sentence
    chosen = plan(min_effect=0.10, spread=0.04)
    assert chosen.can_decide and 2 < chosen.pairs < 8
    assert plan(min_effect=0.10, spread=0.04, cells=4).pairs >= chosen.pairs
