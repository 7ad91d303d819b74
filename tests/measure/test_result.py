from __future__ import annotations

from typing import Any

import pytest

from ungate.measure.result import LoadResult, Stop, spread, summarise
from ungate.measure.stream import CUT, Outcome
from ungate.model import Cell

CELL = Cell(1, 8, 4)


def outcome(
    index: int = 0, *, times: tuple[float, ...], fault: str = "", tokens: int | None = 4, start: float = 0.0
) -> Outcome:
    return Outcome(index, start, start, times[-1] if times else 0.0, times, tokens, 8, "length", fault)


def test_latencies_are_what_their_names_say() -> None:
    result = summarise(
        CELL, "closed", [outcome(times=(1.0, 1.2, 1.5, 1.6))], (0.0, 2.0), lags=[0.001], client_cpu_s=0.1, seconds=2.0
    )
    assert result.ttft is not None and result.ttft.mean == pytest.approx(1.0)
    assert result.tpot is not None and result.tpot.mean == pytest.approx(0.2)
    assert result.itl is not None and result.itl.p50 == pytest.approx(0.2) and result.itl.count == 3
    assert result.e2e is not None and result.e2e.mean == pytest.approx(1.6)
    assert result.tokens_per_second == pytest.approx(2.0)
    assert result.valid


def test_a_latency_counts_from_when_the_request_was_due() -> None:
    late = Outcome(0, 0.0, 0.5, 1.0, (1.0,), 1, 8, "length", "")
    result = summarise(CELL, "PoissonRate", [late], (0.0, 1.0), lags=[], client_cpu_s=0, seconds=1, late=1)
    assert result.ttft is not None and result.ttft.mean == pytest.approx(1.0)
    assert not result.valid and "sent late" in result.invalid[0]


def test_only_the_window_counts_for_throughput() -> None:
    inside = outcome(times=(0.5, 1.5, 2.5, 3.5))
    result = summarise(CELL, "closed", [inside], (1.0, 3.0), lags=[], client_cpu_s=0, seconds=4)
    assert result.tokens_per_second == pytest.approx(1.0)


def test_events_with_several_tokens_count_by_the_servers_usage() -> None:
    double = outcome(times=(1.0, 2.0), tokens=4)
    result = summarise(CELL, "closed", [double], (0.0, 2.0), lags=[], client_cpu_s=0, seconds=2)
    assert result.tokens_per_second == pytest.approx(2.0)


def test_a_closing_event_without_a_token_is_no_token() -> None:
    closed = outcome(times=(1.0, 1.1, 1.2, 1.3, 1.3), tokens=4)
    result = summarise(CELL, "closed", [closed], (0.0, 2.0), lags=[], client_cpu_s=0, seconds=2)
    assert result.zero_gaps == 0.0
    assert result.tokens_per_second == pytest.approx(2.0)


def test_glued_chunks_make_a_cell_invalid() -> None:
    glued = outcome(times=(1.0, 1.0, 1.0, 1.3))
    result = summarise(CELL, "closed", [glued], (0.0, 2.0), lags=[], client_cpu_s=0, seconds=2)
    assert result.zero_gaps == pytest.approx(2 / 3)
    assert not result.valid and "glued" in result.invalid[0]


def test_glued_chunks_leave_the_throughput_known_where_none_waits_over_an_edge() -> None:
    """A token that came 0.3 s late was made in the same window, but its latency is gone."""
    starts = [2.0 * number for number in range(30)]
    outcomes = [outcome(times=(start + 1.0, start + 1.0, start + 1.0, start + 1.3), start=start) for start in starts]

    def over(begin: float, end: float, **changes: Any) -> LoadResult:
        told = {"lags": [], "client_cpu_s": 0, "seconds": end - begin, **changes}
        return summarise(CELL, "closed", outcomes, (begin, end), **told)

    result = over(0.0, 60.0)
    assert not result.valid and result.edge_gap_s == 0.0
    assert result.unfit("output_tokens_per_second") == "" and result.unfit("e2e_mean") == ""
    for metric in ("ttft_p50", "itl_mean", "tpot_mean"):
        assert "glued" in result.unfit(metric), metric
    late = over(0.0, 59.2)
    assert late.edge_gap_s == pytest.approx(0.3) and late.unfit("output_tokens_per_second") == ""
    early = over(0.5, 59.5)
    assert early.edge_gap_s == pytest.approx(1.0) and "glued" in early.unfit("output_tokens_per_second")
    short = over(0.0, 1.2)
    assert short.edge_gap_s == pytest.approx(0.3) and "glued" in short.unfit("output_tokens_per_second")
    slow = over(0.0, 60.0, lags=[5.0] * 100)
    assert "lagged" in slow.unfit("output_tokens_per_second") and "glued" not in slow.unfit("output_tokens_per_second")


def test_a_lagging_client_makes_a_cell_invalid() -> None:
    result = summarise(
        CELL, "closed", [outcome(times=(0.1, 0.2, 0.3, 0.4))], (0.0, 2.0), lags=[0.05] * 10, client_cpu_s=0, seconds=2
    )
    assert not result.valid and "lagged 50 ms" in result.invalid[0]


def test_a_lag_that_is_little_beside_a_request_is_none() -> None:
    result = summarise(
        CELL, "closed", [outcome(times=(1.0, 1.1, 1.2, 1.3))], (0.0, 2.0), lags=[0.05] * 10, client_cpu_s=0, seconds=2
    )
    assert result.valid and result.lag_p99_s == pytest.approx(0.05)


@pytest.mark.parametrize(("cached", "valid"), [(None, True), (0.0, True), (2.0, True), (6.0, False)])
def test_a_warm_prefix_cache_makes_a_cell_invalid_and_a_shared_first_token_does_not(
    cached: float | None, valid: bool
) -> None:
    one = outcome(times=(1.0, 1.1, 1.2, 1.3))
    result = summarise(CELL, "closed", [one], (0.0, 2.0), lags=[], client_cpu_s=0, seconds=2, cached=cached)
    assert result.valid is valid
    assert result.cached == (None if cached is None else cached / 8)


def test_failures_are_counted_by_their_words_and_never_become_figures() -> None:
    outcomes = [
        outcome(0, times=(1.0, 1.1, 1.2, 1.3)),
        outcome(1, times=(0.1,), fault="HTTP 500"),
        outcome(2, times=(), fault="HTTP 500"),
    ]
    result = summarise(CELL, "closed", outcomes, (0.0, 2.0), lags=[], client_cpu_s=0, seconds=2)
    assert result.faults == (("HTTP 500", 2),)
    assert result.failed == 2 and result.completed == 1
    assert result.invalid == ("2 of 3 requests failed",)
    assert result.ttft is not None and result.ttft.count == 1
    assert result.tokens_per_second == pytest.approx(2.0)


def test_a_usable_stop_counts_what_was_cut_off_and_a_fault_does_not() -> None:
    cut = outcome(times=(1.0, 2.0), fault=CUT, tokens=None)
    arguments = {"lags": [], "client_cpu_s": 0.0, "seconds": 2.0}
    collapse = summarise(CELL, "closed", [cut], (0.0, 2.0), stop=Stop("collapsed", usable=True), **arguments)  # type: ignore[arg-type]
    assert collapse.valid and collapse.tokens_per_second == pytest.approx(1.0)
    assert collapse.ttft is None and collapse.failed == 0
    fault = summarise(CELL, "closed", [cut], (0.0, 2.0), stop=Stop("worker died"), **arguments)  # type: ignore[arg-type]
    assert not fault.valid and fault.invalid[0] == "stopped early: worker died"


def test_nothing_is_none_and_not_zero() -> None:
    assert spread([]) is None
    result = summarise(CELL, "closed", [], (0.0, 1.0), lags=[], client_cpu_s=0, seconds=1)
    assert result.tokens_per_second is None and result.requests_per_second is None
    assert result.ttft is None and result.zero_gaps is None and result.lag_p99_s is None
    assert result.invalid == ("no request succeeded",)


def _paced(first: int, second: int) -> tuple[Outcome, ...]:
    """One request: so many tokens in the first and in the second of two seconds."""
    times = [*(i / first for i in range(first)), *(1.0 + (i + 0.5) / second for i in range(second))]
    return (outcome(times=tuple(times), tokens=first + second),)


@pytest.mark.parametrize(("first", "second", "drift"), [(58, 83, 83 / 58), (83, 83, 1.0), (40, 30, None)])
def test_a_change_of_speed_within_the_load_is_told(first: int, second: int, drift: float | None) -> None:
    """A report's figures: 58.5 tokens a second at first, 83.2 after five long generations, and a log that says ready.

    (Blackwellboy/model-serving-minefield#37)
    """
    made = _paced(first, second)
    result = summarise(CELL, "closed", made, (0.0, 2.0), lags=[], client_cpu_s=0, seconds=2)
    assert result.drift == (None if drift is None else pytest.approx(drift, rel=0.03))
    cut = summarise(CELL, "closed", made, (0.0, 2.0), lags=[], client_cpu_s=0, seconds=2, stop=Stop("collapsed", True))
    assert cut.drift is None
