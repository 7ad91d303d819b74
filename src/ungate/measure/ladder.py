"""The correctness ladder: a candidate's answers against the baseline's, with the baseline's own unrest as the floor.

Greedy answers of two right servers may differ: another order of summation moves log probabilities a little, and where
two tokens are nearly tied the other one is chosen and everything after it differs. So log probabilities are
compared up to the first difference, and the difference itself must be a tie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from ungate.measure.answers import Answer, Answers, Rung

__all__ = ["MAX_SHIFT", "MEAN_SHIFT", "Ladder", "RungResult", "compare", "compare_with_restart"]

MAX_SHIFT = 0.25
"""Largest shift of a log probability (nats) that another order of summation explains: bfloat16 rounds a logit
of magnitude 20 to steps of 0.08 (2**-8 relative), and three such steps may add up. Garbage moves it by whole nats."""

MEAN_SHIFT = 0.05
"""Largest mean shift over a rung, in nats: a small error that every token has is worse than one rounding."""

_GARBAGE = ("no answer", "an empty answer", "a log probability that is not a number", "one token repeated")
"""How faults begin that no choice of kernels explains."""

_FLOOR_FACTOR = 3.0
_REPEATED_FROM = 8  # tokens from which an answer of one repeated token counts as degenerate


@dataclass(frozen=True, slots=True)
class RungResult:
    """One rung: how many of the answers are equal, and the shifts in nats (None where there was nothing to compare).

    ``floor`` is the largest shift between the baseline's own repeats (None without repeats). ``faults`` say what is
    wrong; none means that the rung holds.
    """

    rung: Rung
    answers: int
    equal: int
    max_shift: float | None
    mean_shift: float | None
    floor: float | None
    faults: tuple[str, ...]
    late: int = 0  # answers that did not come in time, whose faults are not among ``faults``


@dataclass(frozen=True, slots=True)
class Ladder:
    """``holds`` None: not one answer could be compared, or all that is wrong is that some did not come in time.

    ``evidence`` is one sentence for a verdict's reason.
    """

    holds: bool | None
    rungs: tuple[RungResult, ...]
    evidence: str


def compare(baseline: Answers, candidate: Answers) -> Ladder:
    """Judge the candidate's answers; rungs that only one side has are left out and named in the evidence."""
    theirs = dict(candidate.rungs)
    floors = {rung: _floor(repeats) for rung, repeats in baseline.rungs}
    known = [floor for floor in floors.values() if floor is not None]
    unrest = max(known, default=0.0)
    results = [
        _rung(rung, repeats, theirs[rung], floors[rung], unrest) for rung, repeats in baseline.rungs if rung in theirs
    ]
    missing = len(baseline.rungs) - len(results)
    left_out = f"; {missing} rungs were not asked of the candidate" if missing else ""
    bad = [result for result in results if result.faults]
    compared = [result for result in results if result.max_shift is not None]
    late = [result for result in results if result.late]
    if bad:
        evidence = f"{len(bad)} of {len(results)} rungs differ, first at {bad[0].rung}: {bad[0].faults[0]}{left_out}"
        return Ladder(False, tuple(results), evidence)
    if late:
        count = sum(result.late for result in late)
        evidence = (
            f"{count} answers did not come in time, first at {late[0].rung}; {len(compared)} rungs hold{left_out}"
        )
        return Ladder(None, tuple(results), evidence)
    if not compared or missing:
        return Ladder(None, tuple(results), f"{len(compared)} rungs could be compared{left_out}")
    shift = max(result.max_shift or 0.0 for result in compared)
    equal, answers = sum(result.equal for result in results), sum(result.answers for result in results)
    floor = f"; the baseline's own repeats differ by up to {unrest:.2g}" if known else ""
    evidence = f"{equal} of {answers} answers are equal, log probabilities differ by at most {shift:.2g} nats{floor}"
    return Ladder(True, tuple(results), evidence)


def compare_with_restart(baseline: Answers, again: Answers, candidate: Answers) -> Ladder:
    """:func:`compare` with a second start of the baseline, whose answers belong to its own repeats.

    An autotuner may choose other kernels at each start, and then two starts of one server answer further apart than
    two requests to one. Where the second start itself would not pass for the first, the candidate's differences say
    nothing (``holds`` None), unless its answers are garbage.
    """
    more = dict(again.rungs)
    both = Answers(tuple((rung, (*repeats, *more.get(rung, ()))) for rung, repeats in baseline.rungs))
    compared = compare(both, candidate)
    if compared.holds is not False:
        return Ladder(compared.holds, compared.rungs, f"{compared.evidence} over two starts")
    restarted = compare(baseline, again)
    faults = [fault for result in compared.rungs for fault in result.faults]
    if restarted.holds is False and not any(fault.startswith(_GARBAGE) for fault in faults):
        said = f"{compared.evidence}; but a second start of the baseline differs too: {restarted.evidence}"
        return Ladder(None, compared.rungs, said)
    return Ladder(False, compared.rungs, f"{compared.evidence}; a second start of the baseline does not differ so")


def _floor(repeats: Sequence[Sequence[Answer]]) -> float | None:
    shifts = [
        shift
        for one, other in combinations(repeats, 2)
        for first, second in zip(one, other, strict=True)
        for shift in _shifts(first, second)
    ]
    return max(shifts, default=None)


def _agreed(one: Answer, other: Answer) -> int:
    """How many tokens the two have in common from the start."""
    pairs = zip(one.tokens, other.tokens, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one.tokens), len(other.tokens)))


def _shifts(one: Answer, other: Answer) -> Iterator[float]:
    common = _agreed(one, other)
    for a, b in zip(one.logprobs[:common], other.logprobs[:common], strict=False):
        if a is not None and b is not None:
            yield abs(a - b)


def _rung(
    rung: Rung,
    baseline: Sequence[Sequence[Answer]],
    candidate: Sequence[Sequence[Answer]],
    floor: float | None,
    unrest: float,
) -> RungResult:
    allowed = max(MAX_SHIFT, _FLOOR_FACTOR * unrest)
    faults: dict[str, None] = {}
    shifts: list[float] = []
    answers = equal = late = 0
    for repeat in candidate:
        for first, second in zip(baseline[0], repeat, strict=True):
            if first.fault:
                continue
            answers += 1
            if second.late:
                late += 1
                continue
            equal += first.tokens == second.tokens
            shifts += _shifts(first, second)
            if fault := _fault(first, second, allowed):
                faults[fault] = None
    mean = math.fsum(shifts) / len(shifts) if shifts else None
    if mean is not None and mean > max(MEAN_SHIFT, _FLOOR_FACTOR * unrest):
        faults[f"log probabilities are shifted by {mean:.2g} nats on average"] = None
    return RungResult(rung, answers, equal, max(shifts, default=None), mean, floor, tuple(faults), late)


def _fault(first: Answer, second: Answer, allowed: float) -> str:
    """What is wrong with a candidate's answer ``second``, or nothing."""
    if second.fault:
        return f"no answer ({second.fault})"
    if not second.tokens and first.tokens:
        return "an empty answer"
    if None in second.logprobs and None not in first.logprobs:
        return f"a log probability that is not a number at token {second.logprobs.index(None)}"
    if len(second.tokens) >= _REPEATED_FROM and len(set(second.tokens)) == 1 and len(set(first.tokens)) > 1:
        return "one token repeated over the whole answer"
    shift = max(_shifts(first, second), default=0.0)
    if shift > allowed:
        return f"a log probability is shifted by {shift:.2g} nats (allowed {allowed:.2g})"
    place = _agreed(first, second)
    if place == len(first.tokens) == len(second.tokens):
        return ""
    if place in {len(first.tokens), len(second.tokens)}:
        return f"{len(second.tokens)} tokens instead of {len(first.tokens)}"
    return _tie(first, second, place, allowed)


def _tie(first: Answer, second: Answer, place: int, allowed: float) -> str:
    chosen = first.logprobs[place]
    other = first.top[place].get(second.tokens[place]) if place < len(first.top) else None
    if other is None and place < len(first.top):
        # Not among the likeliest: at best as likely as the last of them, if the candidate's own figure says so.
        other = min(first.top[place].values(), default=None)
        close = second.logprobs[place]
        if chosen is not None and other is not None and close is not None and abs(close - other) > allowed:
            return f"another token at {place}, which the baseline does not have among its likeliest"
    if chosen is None or other is None:
        return f"another token at {place}, and the baseline gives no alternatives to judge it by"
    if chosen - other > allowed:
        return f"another token at {place}, {chosen - other:.2f} nats less likely in the baseline"
    return ""
