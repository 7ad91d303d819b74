from __future__ import annotations

import socket
import time

import pytest

from ungate.errors import Refusal
from ungate.measure import load
from ungate.measure.result import LoadResult, Stop
from ungate.model import Cell

CELL = Cell(concurrency=3, prompt_tokens=12, output_tokens=8)


def faults_of_the_server(result: LoadResult) -> list[str]:
    """Why a result is invalid, apart from a starved machine, which can befall any test."""
    return [reason for reason in result.invalid if "glued" not in reason and "lagged" not in reason]


def test_a_number_of_requests_is_sent_and_every_token_is_kept(fake: str) -> None:
    result = load.run(f"{fake}/none/1", "fake", CELL, requests=10)
    assert result.completed == 10 and result.failed == 0
    assert not faults_of_the_server(result)
    assert [outcome.index for outcome in result.outcomes] == list(range(10))
    assert all(len(outcome.times) == 8 and outcome.tokens == 8 for outcome in result.outcomes)
    assert result.ttft is not None and result.ttft.p50 >= 0.019
    assert result.tpot is not None and 0.009 < result.tpot.mean < 0.1
    assert result.tokens_per_second is not None
    assert result.tokens_per_second == pytest.approx(80 / result.window_s)


def test_a_duration_counts_only_what_arrives_after_the_ramp_and_before_the_end(fake: str) -> None:
    result = load.run(f"{fake}/none/1", "fake", CELL, seconds=1.0, ramp_s=0.2)
    assert result.window_s == pytest.approx(1.0, abs=0.05)
    assert result.tokens_per_second is not None
    arrived = sum(len(outcome.times) for outcome in result.outcomes)
    assert 0 < result.tokens_per_second * result.window_s < arrived


def test_the_closed_loop_never_has_more_in_flight_than_the_cell_says(fake: str) -> None:
    result = load.run(f"{fake}/none/1", "fake", CELL, requests=15, warmup=0)
    edges = sorted([(o.start, 1) for o in result.outcomes] + [(o.end, -1) for o in result.outcomes])
    flying = peak = 0
    for _, step in edges:
        flying += step
        peak = max(peak, flying)
    assert peak == 3


def test_fixed_arrivals_keep_their_distance(fake: str) -> None:
    result = load.run(f"{fake}/none/1", "fake", CELL, requests=10, rate=20.0, arrivals="fixed")
    gaps = [later.due - earlier.due for earlier, later in zip(result.outcomes, result.outcomes[1:], strict=False)]
    assert gaps == pytest.approx([0.05] * 9)
    assert result.mode == "FixedRate"


def test_poisson_arrivals_are_irregular_and_the_same_for_the_same_seed(fake: str) -> None:
    first = load.run(f"{fake}/none/1", "fake", CELL, requests=8, rate=40.0, warmup=0, seed=5)
    second = load.run(f"{fake}/none/1", "fake", CELL, requests=8, rate=40.0, warmup=0, seed=5)
    dues = [[outcome.due - run.outcomes[0].due for outcome in run.outcomes] for run in (first, second)]
    assert dues[0] == pytest.approx(dues[1])
    gaps = [later - earlier for earlier, later in zip(dues[0], dues[0][1:], strict=False)]
    assert max(gaps) > 2 * min(gaps)


def test_a_collapse_ends_the_run_early_and_its_figure_stays_usable(fake: str) -> None:
    def collapse(progress: load.Progress) -> Stop | None:
        slow = progress.phase == "measure" and progress.seconds > 0.5
        return Stop("collapsed", usable=True) if slow and progress.tokens_per_second else None

    begun = time.monotonic()
    result = load.run(f"{fake}/none/1", "fake", Cell(2, 8, 2000), seconds=60, warmup=0, on_progress=collapse)
    assert time.monotonic() - begun < 5
    assert result.stopped == "collapsed" and result.completed == 0
    assert not faults_of_the_server(result)
    assert result.tokens_per_second is not None and result.tokens_per_second > 10


def test_prompts_from_a_prefix_cache_make_a_cell_invalid(fake: str) -> None:
    hits = ("fake:prefix_cache_hits_total",)
    warm = load.run(f"{fake}/cached/2", "fake", CELL, requests=10, warmup=0, cache_hits=hits)
    assert warm.cached == 0.5 and "50% of the prompt tokens" in " ".join(warm.invalid)
    cold = load.run(f"{fake}/none/1", "fake", CELL, requests=10, warmup=0, cache_hits=hits)
    assert cold.cached == 0.0 and not faults_of_the_server(cold)
    silent = load.run(f"{fake}/none/1", "fake", CELL, requests=2, warmup=0, cache_hits=("absent",))
    assert silent.cached is None


def test_the_token_counter_never_goes_back(fake: str) -> None:
    seen: list[load.Progress] = []
    load.run(f"{fake}/none/1", "fake", CELL, requests=6, on_progress=seen.append)
    tokens = [progress.tokens for progress in seen]
    assert tokens == sorted(tokens) and tokens[-1] == 9 * 8
    assert {progress.phase for progress in seen} == {"warm-up", "measure"}


def test_a_stop_for_a_fault_is_not_usable(fake: str) -> None:
    result = load.run(f"{fake}/none/1", "fake", CELL, seconds=60, on_progress=lambda progress: Stop("worker died"))
    assert result.stopped == "worker died"
    assert not result.valid


def test_a_failed_warm_up_ends_the_run(fake: str) -> None:
    result = load.run(f"{fake}/http-500/1", "fake", CELL, seconds=60)
    assert "the warm-up failed: HTTP 500" in result.stopped
    assert result.tokens_per_second is None and not result.valid


def test_a_hung_server_ends_at_the_deadline(fake: str) -> None:
    result = load.run(f"{fake}/hang/1", "fake", CELL, requests=3, warmup=0, deadline_s=1.0)
    assert "did not end within 1 s" in result.stopped
    assert not result.valid


def test_a_dead_port_is_a_fault_and_not_an_exception() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = load.run(f"http://127.0.0.1:{port}", "none", CELL, requests=3, warmup=0)
    assert result.completed == 0 and result.failed == 3
    assert "connection lost" in result.faults[0][0]
    assert result.tokens_per_second is None and result.ttft is None


def test_a_run_without_an_end_is_refused() -> None:
    with pytest.raises(Refusal, match="either a number of seconds or a number of requests"):
        load.run("http://127.0.0.1:1", "none", CELL)
    with pytest.raises(Refusal, match="cannot be sent"):
        load.run("http://127.0.0.1:1", "none", CELL, requests=1, rate=-1.0)


def test_the_load_client_costs_little(fake: str) -> None:
    result = load.run(f"{fake}/none/1", "fake", Cell(16, 64, 32), requests=64, warmup=16)
    assert result.client_cpu_s < 2.0
