"""The rule on public reports of the kind "100 % busy, low power, no tokens", restated as figures."""

from __future__ import annotations

import pytest

from ungate.measure.spin import Band, diagnose, fit
from ungate.measure.telemetry import Window


def gpu(utilisation: float, power: float | None, tokens: float | None, gpus: int = 2) -> Window:
    means = [(f"{n}/utilisation", utilisation) for n in range(gpus)] + [(f"{n}/power", power) for n in range(gpus)]
    return Window("load", 30.0, None, tokens, None, None, tuple(means))


def cpu(cores: float, tokens: float) -> Window:
    return Window("load", 10.0, cores, tokens, cores / tokens if tokens else None, None)


REPORTS = {
    # 8 workstation cards, baseline 250 W: the collapse that this project comes from.
    "the story": (gpu(3, 80, 0), gpu(100, 250, 3740), gpu(100, 125, 78.6)),
    # local-inference-lab/rtx6kpro#25: a fixed cost in each forward on one platform.
    "41 tok/s instead of 131": (gpu(2, 85, 0), gpu(100, 350, 131), gpu(100, 140, 41)),
    # local-inference-lab/rtx6kpro#21: the one-shot allreduce over PCIe never completes.
    "three stacks hang": (gpu(2, 85, 0), gpu(98, 300, 90), gpu(100, 98, 0)),
    # eugr/spark-vllm-docker#260: a deadlock; no idle sample was given.
    "22 W where 45 W is healthy": (None, gpu(96, 45, 30), gpu(96, 22, 0)),
    # pytorch/pytorch#22671: a training that freezes, no idle sample; the busy one is the board's usual draw.
    "frozen at 65 to 76 W of 300": (None, gpu(98, 230, 4), gpu(100, 69, 0)),
    # nebius/soperator#796: the rule that an operator asked for.
    "busy at idle power": (gpu(0, 90, 0), gpu(99, 600, 1000), gpu(100, 110, 0)),
}


def gpus(*each: tuple[float, float], tokens: float | None) -> Window:
    means = [(f"{n}/utilisation", u) for n, (u, _) in enumerate(each)] + [
        (f"{n}/power", p) for n, (_, p) in enumerate(each)
    ]
    return Window("load", 30.0, None, tokens, None, None, tuple(means))


def test_a_lost_rank_reads_idle_while_those_that_wait_for_it_read_busy() -> None:
    """vllm-project/vllm#8395: three of four GPUs at 100 %, one at 0 %; pytorch/pytorch#137268: one of two."""
    band = fit(gpu(0, 60, 0, 4), gpu(97, 280, 900, 4))
    stuck = gpus((100, 95), (100, 96), (0, 62), (100, 94), tokens=0)
    spin = diagnose(stuck, band)
    assert spin is not None and "3 of 4 GPUs at 100 % utilisation at 95 W" in spin.evidence
    pair = diagnose(gpus((0, 62), (100, 92), tokens=0), band)
    assert pair is not None and "1 of 2 GPUs" in pair.evidence
    one_works = gpus((100, 95), (100, 270), tokens=100)
    assert diagnose(one_works, band) is None, "a rank that computes alone is slow, and the others wait for its work"


def test_a_pipeline_whose_later_stages_are_busy_before_any_request() -> None:
    """zai-org/GLM-130B#32: no text was given, GPU 0 at 0 %, the others at 100 % and 66 W of 300 W."""
    spin = diagnose(gpus((0, 53), (100, 66), (100, 66), tokens=None), fit(None, gpu(100, 250, 10)), loaded=False)
    assert spin is not None and spin.what == "busy with no request to serve" and "2 of 3 GPUs" in spin.evidence


@pytest.mark.parametrize("name", REPORTS)
def test_reports_are_recognised(name: str) -> None:
    idle, busy, window = REPORTS[name]
    spin = diagnose(window, fit(idle, busy))
    assert spin is not None and spin.where == "gpu" and spin.what == "spinning on a synchronisation"
    assert f"{window.gpu('power')[0]:.0f} W" in spin.evidence


@pytest.mark.parametrize("name", REPORTS)
def test_the_healthy_and_the_idle_sample_of_each_report_are_not(name: str) -> None:
    idle, busy, _ = REPORTS[name]
    band = fit(idle, busy)
    assert diagnose(busy, band) is None
    if idle is not None:
        assert diagnose(idle, band) is None


@pytest.mark.parametrize(
    ("window", "why"),
    [
        (gpu(100, 245, 60), "slow, and working hard for it"),
        (gpu(100, 120, 80), "low power and a third slower: less, but real progress"),
        (gpu(40, 110, 10), "not busy: it waits for the host"),
        (gpu(100, None, 10), "no power reading"),
    ],
)
def test_other_ways_of_being_slow_are_not_called_spinning(window: Window, why: str) -> None:
    assert diagnose(window, fit(gpu(1, 80, 0), gpu(100, 250, 120))) is None, why


@pytest.mark.parametrize("power", [120.0, 250.0])
def test_a_gpu_busy_for_nobody_is_told_whatever_its_power(power: float) -> None:
    """rtx6kpro#15 (120 W with no process left) and vllm#12664 (100 % with zero requests)."""
    spin = diagnose(gpu(100, power, None), fit(gpu(0, 85, 0), gpu(100, 300, 90)), loaded=False)
    assert spin is not None and spin.what == "busy with no request to serve"
    assert diagnose(gpu(1, 85, None), fit(None, gpu(100, 300, 90)), loaded=False) is None


def test_without_a_gpu_cpu_time_against_tokens_tells() -> None:
    band = fit(cpu(0.05, 0), cpu(1.6, 800))
    spin = diagnose(cpu(2.0, 60), band)
    assert spin is not None and spin.where == "cpu"
    assert "2.0 cores busy" in spin.evidence and "60.0 tokens/s instead of 800.0" in spin.evidence
    assert diagnose(cpu(2.0, 0), band) is not None, "no token at all"
    assert diagnose(cpu(1.6, 790), band) is None
    assert diagnose(cpu(0.1, 60), band) is None, "slow and idle: it waits, it does not spin"
    assert diagnose(cpu(0.1, 60), fit(None, cpu(0.1, 800))) is None, "a load that took little CPU, and waits now"


def test_a_machine_without_readings_gets_no_diagnosis() -> None:
    assert diagnose(gpu(100, 100, 1), Band()) is None
    assert diagnose(Window("load", 1.0, None, None, None, None), fit(None, cpu(1.0, 100))) is None
