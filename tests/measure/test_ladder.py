from __future__ import annotations

import time

import pytest

from ungate.measure.answers import Answer, Answers, Rung, collect, rungs
from ungate.measure.ladder import compare, compare_with_restart
from ungate.model import Cell

RUNG = Rung(1, 16, 8)


def answer(tokens: str = "abcdefgh", shift: float = 0.0, *, top: dict[int, dict[str, float]] | None = None) -> Answer:
    table = tuple((top or {}).get(place, {token: -1.0}) for place, token in enumerate(tokens))
    return Answer(tuple(tokens), tuple(-1.0 + shift for _ in tokens), table)


def answers(*repeats: Answer) -> Answers:
    return Answers(((RUNG, tuple((one,) for one in repeats)),))


def test_equal_answers_hold() -> None:
    ladder = compare(answers(answer(), answer()), answers(answer()))
    assert ladder.holds is True and ladder.rungs[0].equal == 1
    assert ladder.rungs[0].max_shift == 0.0 and ladder.rungs[0].floor == 0.0


def test_a_small_shift_holds_and_a_large_one_does_not() -> None:
    assert compare(answers(answer()), answers(answer(shift=0.03))).holds is True
    ladder = compare(answers(answer()), answers(answer(shift=0.6)))
    assert ladder.holds is False and "shifted by 0.6 nats" in ladder.evidence


def test_a_shift_that_every_token_has_is_found_though_each_is_small() -> None:
    ladder = compare(answers(answer()), answers(answer(shift=0.1)))
    assert ladder.holds is False and "on average" in ladder.evidence


def test_the_baselines_own_unrest_is_the_floor() -> None:
    restless = answers(answer(), answer(shift=0.3))
    ladder = compare(restless, answers(answer(shift=0.5)))
    assert ladder.rungs[0].floor == pytest.approx(0.3)
    assert ladder.holds is True


def test_another_token_at_a_tie_holds_and_what_follows_is_not_compared() -> None:
    tied = answer(top={2: {"c": -1.0, "x": -1.05}})
    ladder = compare(answers(tied), answers(answer("abxqqrst")))
    assert ladder.holds is True and ladder.rungs[0].equal == 0


def test_another_token_that_was_not_close_fails() -> None:
    sure = answer(top={2: {"c": -1.0, "x": -4.0}})
    ladder = compare(answers(sure), answers(answer("abxqqrst")))
    assert ladder.holds is False and "3.00 nats less likely" in ladder.evidence
    elsewhere = answer(top={2: {"c": -1.0, "d": -3.0}})
    ladder = compare(answers(elsewhere), answers(answer("abxqqrst")))
    assert ladder.holds is False and "among its likeliest" in ladder.evidence


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (Answer(fault="HTTP 500"), "no answer (HTTP 500)"),
        (Answer(), "an empty answer"),
        (Answer(tuple("abcdefgh"), (-1.0, None, *[-1.0] * 6), ()), "not a number at token 1"),
        (Answer(tuple("aaaaaaaa"), tuple([-1.0] * 8), ()), "one token repeated"),
        (answer("abcd"), "4 tokens instead of 8"),
    ],
)
def test_degenerate_answers_fail(candidate: Answer, words: str) -> None:
    ladder = compare(answers(answer()), answers(candidate))
    assert ladder.holds is False and words in ladder.evidence


def test_answers_that_did_not_come_in_time_are_not_called_wrong() -> None:
    """A candidate at a fiftieth of the speed needs longer than any patience; whether it is right is not known."""
    late = Answer(fault="no answer for 120 s")
    baseline = Answers(((Rung(1, 4), ((answer(),),)), (Rung(1, 5), ((answer(),),))))
    slow = Answers(((Rung(1, 4), ((answer(),),)), (Rung(1, 5), ((late,),))))
    ladder = compare(baseline, slow)
    assert ladder.holds is None and ladder.evidence.startswith(
        "1 answers did not come in time, first at 1 at once, 5 in"
    )
    wrong = Answers(((Rung(1, 4), ((Answer(fault="HTTP 500"),),)), (Rung(1, 5), ((late,),))))
    assert compare(baseline, wrong).holds is False, "what did come was wrong"


def test_a_baseline_that_repeats_itself_is_its_own_measure() -> None:
    same = Answer(tuple("aaaaaaaa"), tuple([-1.0] * 8), ())
    assert compare(answers(same), answers(same)).holds is True


def test_nothing_to_compare_is_unknown_and_not_right() -> None:
    broken = answers(Answer(fault="HTTP 500"))
    assert compare(broken, answers(answer())).holds is None
    assert compare(answers(answer()), Answers(())).holds is None
    assert compare(Answers(()), Answers(())).holds is None


def test_the_ladder_stands_around_the_thresholds_and_within_the_context() -> None:
    ladder = rungs(Cell(8, 64, 32), thresholds=(16,), longest=512)
    assert {15, 16, 17} <= {rung.prompt_tokens for rung in ladder if rung.concurrency == 1}
    assert {1, 2, 8} == {rung.concurrency for rung in ladder}
    assert max(rung.prompt_tokens for rung in ladder) == 256
    assert all(rung.prompt_tokens + rung.output_tokens <= 100 for rung in rungs(Cell(8, 64, 32), longest=100))


def test_a_silent_server_is_not_asked_again_and_again(fake: str) -> None:
    begun = time.monotonic()
    found = collect(f"{fake}/silent/1", "fake", [Rung(1, length, 2) for length in (4, 5, 6)], repeats=2, timeout_s=1.0)
    assert time.monotonic() - begun < 3
    faults = [one.fault for _, repeats in found.rungs for repeat in repeats for one in repeat]
    assert faults[0] == "no answer for 1 s" and len(faults) == 6
    assert all(fault == "not asked, after no answer for 1 s" for fault in faults[1:])


def test_a_server_without_log_probabilities_gives_answers_with_a_fault(fake: str) -> None:
    found = collect(f"{fake}/none/1", "fake", [Rung(2, 4, 2)])
    assert all(one.fault for _, repeats in found.rungs for repeat in repeats for one in repeat)
    assert len(found.rungs[0][1][0]) == 2


# sgl-project/sglang#39597: with FlashInfer's autotuner two starts of one server answer greedy requests differently.
SURE = {2: {"c": -1.0, "x": -2.0}}


def test_two_starts_of_the_baseline_that_differ_leave_the_candidates_differences_open() -> None:
    first, again = answers(answer(top=SURE), answer(top=SURE)), answers(answer("abxqqrst"))
    candidate = answers(answer("abxyyrst"))
    assert compare(first, candidate).holds is False
    ladder = compare_with_restart(first, again, candidate)
    assert ladder.holds is None and "a second start of the baseline differs too" in ladder.evidence


def test_a_shift_within_what_a_restart_makes_holds() -> None:
    first, again = answers(answer(), answer()), answers(answer(shift=0.2))
    assert compare(first, answers(answer(shift=0.4))).holds is False
    ladder = compare_with_restart(first, again, answers(answer(shift=0.4)))
    assert ladder.holds is True and "over two starts" in ladder.evidence


@pytest.mark.parametrize(
    "wrong",
    [
        Answer(tuple("abcdefgh"), (-1.0, None, *[-1.0] * 6)),
        Answer(tuple("aaaaaaaa"), (-1.0,) * 8),
        Answer(),
        Answer(fault="HTTP 500: out of memory"),
    ],
)
def test_garbage_is_not_excused_by_a_restless_baseline(wrong: Answer) -> None:
    first, again = answers(answer(top=SURE)), answers(answer("abxqqrst"))
    assert compare_with_restart(first, again, answers(wrong)).holds is False


def test_a_baseline_that_answers_alike_at_each_start_leaves_the_candidate_wrong() -> None:
    first, again = answers(answer(top=SURE)), answers(answer(shift=0.01))
    ladder = compare_with_restart(first, again, answers(answer("abxqqrst")))
    assert ladder.holds is False and "does not differ so" in ladder.evidence
