"""Verdicts, guards and policy from records of starts, without any server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from ungate.host.environment import Environment
from ungate.host.facts import HostFacts
from ungate.host.gpus import Gpu, Link
from ungate.judge import Guard, order, plan
from ungate.judge import policy as policies
from ungate.measure.telemetry import Window
from ungate.model import Arm, Cell, Decision, Sample, Target, Variant
from ungate.pipeline.ending import early_ends
from ungate.pipeline.judging import judge
from ungate.pipeline.policies import NAME, tensor_parallel
from ungate.pipeline.records import Context, EarlyEnd, Records, Request, StartRecord
from ungate.pipeline.telling import following
from ungate.recipes import load

SMALL, LARGE = Cell(1, 64, 32), Cell(16, 64, 32)
RUNS = Guard("the candidate starts", True, "ready")
CONTEXT = cast(Context, type("C", (), {"prior": None})())


def _request(tmp_path: Path, **changes: Any) -> Request:
    recipe = replace(load("lab-allreduce-fusion"), cells=(SMALL, LARGE))
    request = Request(
        recipe, Environment((), None), Target(120), tmp_path, command=("server", "--tp", "4"), min_effect=0.05
    )
    return replace(request, **changes)


def _records(speeds: dict[tuple[str, Cell], float], pairs: int = 4, **changes: Any) -> Records:
    """Samples of every start of every arm: throughput from ``speeds``, with a ripple of half a percent."""
    arms = tuple(dict.fromkeys(arm for arm, _ in speeds))
    samples, starts = [], []
    for number, arm in enumerate(order(pairs, arms)):
        starts.append(StartRecord(arm, number, 1.0, seconds=2.0, settled=True, rounds=3, compiled=0))
        for (name, cell), speed in speeds.items():
            if name == arm:
                value = speed * (1.005 if number % 4 < 2 else 0.995)
                samples += [
                    Sample(arm, number, cell, "output_tokens_per_second", value, "token/s"),
                    Sample(arm, number, cell, "ttft_mean", 10 / value, "s"),
                    Sample(arm, number, cell, "tpot_mean", 1 / value, "s"),
                ]
    records = Records(
        arms=tuple(Arm(arm) for arm in arms),
        guards=tuple(replace(RUNS, arm=arm) for arm in arms[1:]),
        plan=plan(min_effect=0.05, spread=0.01, cells=2, pairs=pairs, arms=len(arms)),
        starts=tuple(starts),
        samples=tuple(samples),
    )
    return replace(records, **changes)


BOTH = {("baseline", SMALL): 100.0, ("candidate", SMALL): 130.0, ("baseline", LARGE): 900.0, ("candidate", LARGE): 30.0}


def _decisions(records: Records) -> dict[tuple[str, Cell], Decision]:
    return {(verdict.arm, verdict.cell): verdict.decision for verdict in records.verdicts}


def test_each_cell_is_decided_and_the_policy_says_where(tmp_path: Path) -> None:
    request = _request(tmp_path)
    facts = HostFacts(gpus=(Gpu(0, "G"), Gpu(1, None)), links=(Link(0, 1, read=True, write=True),))
    judged = judge(request, _records(BOTH, facts=facts), CONTEXT)
    assert _decisions(judged) == {("candidate", SMALL): Decision.KEEP, ("candidate", LARGE): Decision.REVERT}
    written = policies.read(tmp_path / NAME)
    assert written == judged.policy
    assert written.spans() == ((1, 1),) and not written.everywhere
    assert (written.place.tensor_parallel, written.place.peer_access, written.place.gpus) == (4, True, ("G", "unknown"))
    assert [(row.prefill, row.decode) for row in written.rows] == [
        (Decision.KEEP, Decision.KEEP),
        (Decision.REVERT, Decision.REVERT),
    ]
    assert f"ungate patch push --policy {tmp_path / NAME}" in " ".join(following(request, judged))
    elsewhere = replace(
        request, recipe=replace(request.recipe, file="/r.toml"), environment=Environment((tmp_path,), None)
    )
    told = " ".join(following(elsewhere, judged))
    assert f"ungate patch push /r.toml --policy {tmp_path / NAME} --site {tmp_path}" in told


def test_a_phase_may_lose_where_the_whole_wins(tmp_path: Path) -> None:
    records = _records(BOTH)
    slow = tuple(
        replace(s, value=3 * (s.value or 0)) if (s.arm, s.metric) == ("candidate", "ttft_mean") else s
        for s in records.samples
    )
    judged = judge(_request(tmp_path), replace(records, samples=slow), CONTEXT)
    assert judged.policy is not None
    row = judged.policy.rows[0]
    assert (row.decision, row.prefill, row.decode) == (Decision.KEEP, Decision.REVERT, Decision.KEEP)


def test_further_arms_are_judged_against_the_same_baseline(tmp_path: Path) -> None:
    request = _request(tmp_path, arms=(Variant("newer"), Variant("broken")))
    speeds = {**BOTH, ("newer", SMALL): 150.0, ("newer", LARGE): 1000.0}
    records = _records(speeds)
    wrong = Guard("outputs are right", False, "3 of 12 differ", arm="broken")
    judged = judge(request, replace(records, guards=(*records.guards, wrong)), CONTEXT)
    found = _decisions(judged)
    assert found["newer", SMALL] is found["newer", LARGE] is Decision.KEEP
    assert found["broken", SMALL] is Decision.REVERT and found["candidate", LARGE] is Decision.REVERT
    assert "3 of 12" in next(v.reason for v in judged.verdicts if v.arm == "broken")


def _hung(records: Records, arms: dict[str, str], starts: int = 99) -> Records:
    """The same records, but LARGE gave nothing in the first ``starts`` of each of these arms, which ended as said."""
    broke = {arm: [s.start for s in records.starts if s.arm == arm][:starts] for arm in arms}
    return replace(
        records,
        starts=tuple(
            replace(s, early=(EarlyEnd(LARGE, arms[s.arm], 48.2, "No token for 12 s: nobody works."),))
            if s.start in broke.get(s.arm, ())
            else s
            for s in records.starts
        ),
        samples=tuple(
            replace(s, value=None, note="stopped early") if s.cell == LARGE and s.start in broke.get(s.arm, ()) else s
            for s in records.samples
        ),
    )


@pytest.mark.parametrize(
    ("arms", "starts", "decision"),
    [
        ({"candidate": "hung"}, 99, Decision.REVERT),
        ({"candidate": "ended"}, 99, Decision.REVERT),
        ({"candidate": "unfinished"}, 99, Decision.INCONCLUSIVE),
        ({"candidate": "hung", "baseline": "hung"}, 99, Decision.INCONCLUSIVE),
        ({"candidate": "hung"}, 3, Decision.INCONCLUSIVE),
    ],
)
def test_a_cell_that_breaks_the_server_in_every_start_is_lost(
    tmp_path: Path, arms: dict[str, str], starts: int, decision: Decision
) -> None:
    judged = judge(_request(tmp_path), _hung(_records(BOTH), arms, starts), CONTEXT)
    assert _decisions(judged) == {("candidate", SMALL): Decision.KEEP, ("candidate", LARGE): decision}
    reason = next(verdict.reason for verdict in judged.verdicts if verdict.cell == LARGE)
    assert ("breaks down under this load in 4 of 4 starts" in reason) is (decision is Decision.REVERT)
    assert judged.policy is not None and judged.policy.spans() == ((1, 1),)


def test_what_was_ended_early_is_told_by_cell_and_arm() -> None:
    early = [EarlyEnd(LARGE, "collapsed", seconds, "collapsed: 40 tokens in 20 s") for seconds in (21.4, 50.9)]
    starts = [StartRecord("candidate", number, 1.0, early=(each,)) for number, each in enumerate(early)]
    starts += [StartRecord("candidate", 2, 1.0), StartRecord("candidate", -1, 1.0), StartRecord("candidate", 3, None)]
    (sentence,) = early_ends(starts)
    assert sentence == (
        f"{LARGE}, candidate: collapsed in 2 of 3 starts, and the load was ended after 21 to 51 s "
        "(collapsed: 40 tokens in 20 s)."
    )


def _guard(judged: Records, words: str) -> Guard:
    return next(guard for guard in judged.guards if words in guard.name)


@pytest.mark.parametrize(
    ("arm", "change", "words", "keeps"),
    [
        ("baseline", {"settled": False}, "as warm", False),
        ("candidate", {"settled": False}, "as warm", True),
        ("baseline", {"compiled": 7}, "JIT caches", False),
        ("candidate", {"compiled": 7}, "JIT caches", True),
        ("baseline", {"compiled": None}, "JIT caches", False),
    ],
)
def test_a_baseline_that_was_held_back_flatters_nobody(
    tmp_path: Path, arm: str, change: dict[str, Any], words: str, keeps: bool
) -> None:
    records = _records(BOTH)
    first = next(start for start in records.starts if start.arm == arm)
    starts = tuple(replace(start, **change) if start is first else start for start in records.starts)
    judged = judge(_request(tmp_path), replace(records, starts=starts), CONTEXT)
    assert (_guard(judged, words).holds is True) == keeps
    assert _decisions(judged)["candidate", SMALL] is (Decision.KEEP if keeps else Decision.INCONCLUSIVE)
    assert keeps or _guard(judged, words).name in judged.verdicts[0].reason


@pytest.mark.parametrize(
    ("baseline", "candidate", "keeps"),
    [
        ([1.42, 1.41, 1.43, 1.42], [1.01, 0.99, 1.0, 1.0], False),
        ([1.42, 1.41, 1.43, 1.42], [1.4, 1.43, 1.42, 1.41], True),
        ([1.42, 1.0, 1.43, 1.42], [1.01, 0.99, 1.0, 1.0], True),
        ([1.0, 1.0, 1.0, 1.0], [1.4, 1.4, 1.4, 1.4], True),
        ([1.3, 1.3, 1.3, 1.3], [0.9, 0.9, 0.9, 0.9], False),
        ([1.2, 1.2, 1.2, 1.2], [0.9, 0.9, 0.9, 0.9], True),
    ],
)
def test_a_baseline_that_warms_up_under_its_load_flatters_nobody(
    tmp_path: Path, baseline: list[float], candidate: list[float], keeps: bool
) -> None:
    records = _records(BOTH)
    drifts = {"baseline": iter(baseline), "candidate": iter(candidate)}
    more = [Sample(s.arm, s.start, SMALL, "speed_drift", next(drifts[s.arm]), "1") for s in records.starts]
    judged = judge(_request(tmp_path), replace(records, samples=(*records.samples, *more)), CONTEXT)
    assert _decisions(judged)["candidate", SMALL] is (Decision.KEEP if keeps else Decision.INCONCLUSIVE)
    assert keeps or "speed had settled" in judged.verdicts[0].reason


def _throttled(arm: str, share: float) -> dict[tuple[str, int, Cell], Window]:
    return {
        (name, 0, SMALL): Window(
            "c", 9.0, None, None, None, None, (("0/throttled_by_power", share if name == arm else 0.0),)
        )
        for name in ("baseline", "candidate")
    }


@pytest.mark.parametrize(("share", "keeps"), [(0.02, True), (0.4, False)])
@pytest.mark.parametrize("arm", ["baseline", "candidate"])
def test_clocks_that_were_held_down_in_one_arm_only_decide_nothing(
    tmp_path: Path, arm: str, share: float, keeps: bool
) -> None:
    judged = judge(_request(tmp_path), _records(BOTH, windows=_throttled(arm, share)), CONTEXT)
    assert _decisions(judged)["candidate", SMALL] is (Decision.KEEP if keeps else Decision.INCONCLUSIVE)
    assert keeps or "clocks" in judged.verdicts[0].reason


@pytest.mark.parametrize(("share", "keeps"), [(0.0, True), (0.5, False)])
def test_a_warm_prefix_cache_decides_nothing(tmp_path: Path, share: float, keeps: bool) -> None:
    records = _records(BOTH)
    told = tuple(Sample(start.arm, start.start, SMALL, "cached_share", share, "1") for start in records.starts)
    judged = judge(_request(tmp_path), replace(records, samples=(*records.samples, *told)), CONTEXT)
    assert _decisions(judged)["candidate", SMALL] is (Decision.KEEP if keeps else Decision.INCONCLUSIVE)
    assert keeps or "prefix cache" in judged.verdicts[0].reason


def test_a_lost_reading_is_told_and_blocks_a_keep(tmp_path: Path) -> None:
    records = _records(BOTH)
    lost = tuple(
        replace(s, value=None, note="the server died") if (s.arm, s.start) == ("candidate", 1) else s
        for s in records.samples
    )
    judged = judge(_request(tmp_path), replace(records, samples=lost), CONTEXT)
    assert _decisions(judged)["candidate", SMALL] is Decision.INCONCLUSIVE
    assert "the same command with --pairs 8" in " ".join(following(_request(tmp_path), judged))
    assert "3 of 4 planned pairs" in judged.verdicts[0].reason and "the server died" in judged.verdicts[0].reason
    assert _decisions(judged)["candidate", LARGE] is Decision.REVERT


def test_the_same_twice_is_noise_and_gives_no_policy(tmp_path: Path) -> None:
    request = _request(tmp_path, same=True)
    noise = Guard("the opened path runs in the candidate only", None, "both are the same", Decision.INCONCLUSIVE)
    speeds = {(arm, cell): 100.0 for arm in ("baseline", "candidate") for cell in (SMALL, LARGE)}
    records = _records({**speeds, ("candidate", LARGE): 130.0})
    judged = judge(request, replace(records, guards=(RUNS, noise)), CONTEXT)
    assert set(_decisions(judged).values()) == {Decision.INCONCLUSIVE}
    assert "no difference as large as 5 %" in judged.verdicts[0].reason
    assert "both are the same" in judged.verdicts[1].reason
    assert judged.policy is None and not (tmp_path / NAME).exists()
    assert "noise of this machine" in " ".join(following(request, judged))


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        (("vllm", "serve", "m", "--tensor-parallel-size", "8"), 8),
        (("vllm", "serve", "m", "-tp=2"), 2),
        (("python", "-m", "sglang.launch_server", "--tp-size=4"), 4),
        (("server", "--tp"), None),
        (("server", "--tp", "many"), None),
        (("server",), None),
    ],
)
def test_the_ranks_are_read_from_the_command(command: tuple[str, ...], ranks: int | None) -> None:
    assert tensor_parallel(command) == ranks
