from __future__ import annotations

import pytest

from ungate.measure import load
from ungate.measure.collapse import LIMIT_S, Collapse, Curve, Life, curves
from ungate.measure.load import Progress
from ungate.measure.result import LoadResult, Stop
from ungate.measure.selfcheck import fake_server
from ungate.model import Cell, Sample

HEALTHY = Curve(tuple(range(1, 21)), tuple(100 * n for n in range(1, 21)))  # 100 tokens a second
NONE = Life()
LATE = Curve(tuple(range(1, 21)), tuple(0 if n < 8 else 100 * (n - 7) for n in range(1, 21)))  # first token after 7 s


def at(seconds: float, tokens: int, phase: str = "measure") -> Progress:
    return Progress(phase, seconds, 0, 0, tokens, None)


def fed(collapse: Collapse, points: list[tuple[float, int]], phase: str = "measure", life: Life = NONE) -> Stop | None:
    for seconds, tokens in points:
        if stop := collapse.stop(at(seconds, tokens, phase), life):
            return stop
    return None


def test_fewer_than_half_of_the_baselines_tokens_end_a_load_as_a_measurement() -> None:
    stop = fed(Collapse([HEALTHY], 20.0), [(n, 2 * n) for n in range(1, 30)])
    assert stop is not None and stop.usable
    assert stop.reason == "collapsed: 40 tokens in 20 s, 2000 of the baseline by then"


def test_a_few_tokens_behind_a_long_prompt_are_no_figure_yet() -> None:
    crawling = [(float(n), max(0, (n - 8) // 2)) for n in range(1, 90)]
    stop = fed(Collapse([HEALTHY], 8.0), crawling)
    assert stop is not None and stop.reason.startswith("collapsed: 24 tokens in 57 s")
    quicker = [(float(n), max(0, 4 * (n - 8))) for n in range(1, 90)]
    stop = fed(Collapse([HEALTHY], 8.0), quicker)
    assert stop is not None and stop.reason.startswith("collapsed: 32 tokens in 16 s")


@pytest.mark.parametrize(
    ("healthy", "points", "why"),
    [
        ([], [(n, 0) for n in range(1, 200)], "there is no baseline yet"),
        ([HEALTHY], [(n, 51 * n) for n in range(1, 21)], "half as fast is measured to the end"),
        ([LATE], [(n, 0) for n in range(1, 9)], "the baseline has no token by then either"),
        ([LATE], [(n, 60 * max(0, n - 7)) for n in range(1, 21)], "as late as the baseline, then slower by a third"),
        ([HEALTHY, LATE], [(n, 55 * max(0, n - 7)) for n in range(1, 10)], "the starts of the baseline differ"),
    ],
)
def test_what_is_no_collapse_goes_on(healthy: list[Curve], points: list[tuple[float, int]], why: str) -> None:
    assert fed(Collapse(healthy, 20.0), points) is None, why


def test_tokens_at_first_and_none_since_leave_open_whether_the_server_hangs() -> None:
    stopped = Collapse([HEALTHY], 4.0)
    stop = fed(stopped, [(0.2 * n, min(64, 32 * n)) for n in range(1, 30)])
    assert stop is not None and stop.usable and stopped.silent
    slow = Collapse([HEALTHY], 4.0)
    assert fed(slow, [(0.2 * n, 4 * n) for n in range(1, 30)]) is not None and not slow.silent


@pytest.mark.parametrize(
    "life", [Life(slow="lab:steps_total grew from 3 to 4"), Life(busy="its processes used 1.9 cores")]
)
def test_silence_is_a_measurement_only_of_a_server_that_works(life: Life) -> None:
    points = [(float(n), 0) for n in range(1, 130)]
    still = Collapse([HEALTHY], 20.0)
    assert fed(still, points) is None and not still.silent
    collapse = Collapse([HEALTHY], 20.0)
    stop = fed(collapse, points, life=life)
    assert stop is not None and stop.usable and life.words in stop.reason
    assert collapse.silent, "whether it answers at all is still to be asked"


@pytest.mark.parametrize("load_s", [4.0, 20.0, 600.0])
@pytest.mark.parametrize("per_s", [0.0, 0.05, 1.0, 20.0])
@pytest.mark.parametrize("warm_s", [0, 10, 30])
def test_a_collapse_ends_within_the_limit_whatever_was_asked_for(load_s: float, per_s: float, warm_s: int) -> None:
    collapse, life = Collapse([HEALTHY], load_s), Life(busy="its processes used 1.9 cores")
    for n in range(1, warm_s + 1):
        collapse.stop(at(float(n), int(per_s * n), "warm-up"), life)
    base = int(per_s * warm_s)
    points = [(n / 5, base + int(per_s * n / 5)) for n in range(1, 5 * 700)]
    stopped = next(point for point, _ in points if collapse.stop(at(point, base + int(per_s * point)), life))
    assert warm_s + stopped <= LIMIT_S - 1
    assert stopped >= min(load_s, 20.0)


def test_a_silent_warm_up_is_cut_short_where_the_server_is_known_to_work() -> None:
    silence = [(float(n), 0) for n in range(1, 100)]
    assert fed(Collapse([HEALTHY], 20.0), silence, "warm-up") is None
    stop = fed(Collapse([HEALTHY], 20.0), silence, "warm-up", Life(busy="its processes used 1.9 cores"))
    assert stop is not None and stop.usable and "1.9 cores" in stop.reason
    seldom = [(float(n), n // 8) for n in range(1, 100)]
    stop = fed(Collapse([HEALTHY], 20.0), seldom, "warm-up", Life(slow="lab:steps_total grew from 3 to 4"))
    assert stop is not None and "tokens in 10 s" in stop.reason


def test_a_slow_warm_up_is_cut_short_once_tokens_show_that_it_is_slow() -> None:
    crawling = [(float(n), n) for n in range(1, 60)]
    stop = fed(Collapse([HEALTHY], 20.0), crawling, "warm-up")
    assert stop is not None and stop.usable and "10 tokens in 10 s" in stop.reason
    compiling = [(float(n), max(0, 100 * (n - 57))) for n in range(1, 70)]
    assert fed(Collapse([HEALTHY], 20.0), compiling, "warm-up") is None


@pytest.mark.parametrize("every_s", [1, 3, 8, 11, 14, 19])
def test_tokens_in_bursts_end_within_the_limit_too(every_s: int) -> None:
    """Four tokens at once with each long step, and no sign of life beside them."""
    collapse = Collapse([HEALTHY], 20.0)
    warm = 0.0
    while not collapse.stop(at(warm, 4 * int(warm / every_s), "warm-up")):
        warm += 0.2
    base = 4 * int(warm / every_s)
    lasted = 0.2
    while not collapse.stop(at(lasted, base + 4 * int(lasted / every_s))):
        lasted += 0.2
    assert warm + lasted <= LIMIT_S
    assert lasted >= 12.0


def test_the_measured_phase_counts_its_own_tokens() -> None:
    collapse = Collapse([HEALTHY], 4.0)
    assert fed(collapse, [(1.0, 500), (2.0, 900)], "warm-up") is None
    assert collapse.curve is None
    assert fed(collapse, [(1.0, 1000), (2.0, 1100)]) is None
    assert collapse.curve == Curve((1.0, 2.0), (100, 200))


def sample(start: int, metric: str, value: float | None) -> Sample:
    return Sample("baseline", start, Cell(64, 1024, 256), metric, value, "")


def test_the_curve_of_an_earlier_start_is_known_from_its_metrics() -> None:
    rows = [sample(0, "output_tokens_per_second", 3740.0), sample(0, "ttft_p90", 4.0)]
    rows += [sample(3, "output_tokens_per_second", 3600.0), sample(3, "ttft_p90", None), sample(3, "e2e_p90", 9.0)]
    rows += [sample(4, "output_tokens_per_second", None)]
    first, second = curves(rows)
    assert first.at(4.0) == 0 and first.at(14.0) == pytest.approx(37400, rel=0.01)
    assert second.at(9.0) == 0 and second.at(19.0) == pytest.approx(36000, rel=0.01)
    collapsed = fed(Collapse([first, second], 20.0), [(float(n), int(78.6 * n)) for n in range(1, 21)])
    assert collapsed is not None and collapsed.usable
    slow_start = [(float(n), int(3700 * max(0, n - 6))) for n in range(1, 22)]
    assert fed(Collapse([first, second], 20.0), slow_start) is None


def run(gap_s: float, ttft_s: float, healthy: list[Curve], cell: Cell, load_s: float) -> tuple[LoadResult, Collapse]:
    collapse = Collapse(healthy, load_s)
    with fake_server(ttft_s, gap_s) as url:
        result = load.run(f"{url}/none/1", "fake", cell, seconds=load_s, on_progress=collapse.stop, warmup=0)
    return result, collapse


def test_a_collapsed_server_is_measured_and_not_called_broken() -> None:
    """The story's ratio: 78.6 tokens a second where 3,740 are healthy is a figure, and the load that gives it short."""
    cell = Cell(concurrency=8, prompt_tokens=8, output_tokens=200)
    _, before = run(0.03, 0.05, [], cell, 3.0)
    assert before.curve is not None
    result, _ = run(0.5, 1.0, [before.curve], cell, 6.0)
    assert result.stopped.startswith("collapsed: ") and result.completed == 0 and result.failed == 0
    assert result.valid, result.invalid
    assert result.tokens_per_second == pytest.approx(8 / 0.5, rel=0.35)
    assert result.seconds < 12.0, "the requests would take 100 s"
