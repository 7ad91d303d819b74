from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from ungate.measure import telemetry
from ungate.measure.counters import chosen
from ungate.measure.fake import CACHE_HITS
from ungate.measure.fields import Field, fields
from ungate.measure.telemetry import Column, Recorder, Series


def test_cpu_time_of_processes_is_recorded_with_tokens_and_phases() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with Recorder([busy.pid]) as recorder:
            with recorder.phase("work"):
                for count in range(1, 11):
                    time.sleep(0.1)
                    recorder.tokens(count)
            with recorder.phase("rest"):
                time.sleep(0.35)
    finally:
        busy.kill()
        busy.wait()
    series = recorder.series()
    work, rest = series.window("work"), series.window("rest")
    assert work is not None and rest is not None
    assert work.cpu_cores is not None and 0.05 < work.cpu_cores < 1.3
    assert work.tokens_per_second == pytest.approx(10, rel=0.5)
    assert work.cpu_s_per_token is not None and work.cpu_s_per_token > 0
    assert rest.tokens_per_second is None and rest.cpu_s_per_token is None
    steps = [later - earlier for earlier, later in zip(series.times, series.times[1:], strict=False)]
    assert sum(steps) / len(steps) == pytest.approx(0.1, rel=0.5)
    assert series.window("never") is None


def test_the_servers_counters_are_recorded_beside_and_hold_up_nothing(fake: str) -> None:
    url = f"{fake}/none/1"
    with Recorder([os.getpid()], counters=lambda: chosen(url, (CACHE_HITS, "absent"))) as recorder:
        time.sleep(1.6)
    series = recorder.series()
    hits = series.column(CACHE_HITS)
    assert hits[0] is None and hits[-1] is not None
    assert series.column("absent") == ()
    begun = time.monotonic()
    with Recorder([os.getpid()], counters=lambda: chosen(f"{fake}/silent/1", ("x",))) as recorder:
        time.sleep(1.3)
    assert time.monotonic() - begun < 3
    assert len(recorder.series().times) > 5


def test_a_process_that_ends_keeps_its_share() -> None:
    code = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    short = subprocess.Popen([sys.executable, "-c", code])
    with Recorder([short.pid, os.getpid()], interval_s=0.05) as recorder:
        short.wait(20)
        time.sleep(0.2)
    cpu = [value for value in recorder.series().column("cpu") if value is not None]
    assert cpu == sorted(cpu) and cpu[-1] >= 0.2


def test_a_gpus_means_energy_and_missing_readings() -> None:
    series = Series(
        times=(0.0, 1.0, 2.0, 3.0),
        columns=(
            Column("cpu", "s", (0.0, 1.0, 2.0, 3.0)),
            Column("tokens", "token", (None, 0.0, 100.0, 200.0)),
            Column("0/power", "W", (80.0, 200.0, 300.0, None)),
            Column("1/power", "W", (80.0, 100.0, 100.0, 100.0)),
            Column("1/pcie_rx", "B/s", (None, None, None, None)),
        ),
        phases=(("load", 1.0, 3.0),),
    )
    window = series.window("load")
    assert window is not None
    assert window.gpu("power") == (250.0, 100.0)
    assert window.gpu("pcie_rx") == () and dict(window.gpus)["1/pcie_rx"] is None
    assert window.tokens_per_second == 100.0
    assert window.joules_per_token == pytest.approx((250 + 100) * 2 / 200)


def test_every_field_is_named_with_its_unit() -> None:
    found = {field.name: field.unit for field in fields()}
    assert found["power"] == "W" and found["sm_clock"] == "MHz" and found["pcie_tx"] == "B/s"
    assert {"utilisation", "memory_clock", "throttle_reasons", "temperature", "memory"} <= set(found)


def test_every_field_asks_nvml_for_what_nvml_has() -> None:
    """A misspelt name would read as None for ever, like a reading that a GPU does not have."""
    import pynvml

    class Answer(int):
        gpu = memory = used = 7

    class Nvml:
        def __getattr__(self, name: str) -> object:
            found = getattr(pynvml, name)
            return (lambda *arguments: Answer(0xFF)) if callable(found) and not isinstance(found, type) else found

    for field in fields():
        assert float(field.read(Nvml(), None)) > 0, field.name


def test_power_is_that_of_the_moment_where_the_driver_tells_it() -> None:
    """On most GPUs the plain call gives a mean over the last second: an idle sample after a load would look busy."""

    class Nvml:
        NVML_SUCCESS, NVML_FI_DEV_POWER_INSTANT = 0, 186

        class NVMLError(Exception):
            pass

        def __init__(self, status: int) -> None:
            self.status = status

        def nvmlDeviceGetFieldValues(self, gpu: object, names: list[int]) -> list[object]:
            assert names == [186]
            return [SimpleNamespace(nvmlReturn=self.status, value=SimpleNamespace(uiVal=81_000))]

        def nvmlDeviceGetPowerUsage(self, gpu: object) -> int:
            return 412_000

    power = next(field for field in fields() if field.name == "power")
    assert power.read(Nvml(0), None) == 81.0
    assert power.read(Nvml(3), None) == 412.0


def test_the_energy_counter_is_taken_before_power_times_time() -> None:
    """NVML's mean power of the last second and a step of load would be wrong by half."""
    series = Series(
        times=(0.0, 1.0, 2.0),
        columns=(
            Column("tokens", "token", (0.0, 50.0, 100.0)),
            Column("0/power", "W", (100.0, 100.0, 100.0)),
            Column("0/energy", "J", (7000.0, 7250.0, 7500.0)),
            Column("1/power", "W", (60.0, 60.0, 60.0)),
            Column("1/energy", "J", (None, None, None)),
            Column("vllm:generation_tokens_total", "", (None, 40.0, 90.0)),
        ),
        phases=(("load", 0.0, 2.0),),
    )
    window = series.window("load")
    assert window is not None
    assert window.joules_per_token == pytest.approx((500 + 120) / 100)
    assert dict(window.gpus)["0/energy"] == 500.0
    assert window.counters == (("vllm:generation_tokens_total", 50.0),)


def test_the_share_of_time_that_a_cap_held_the_clocks_down() -> None:
    """ashalliants/ninfer-3090#72: the power cap bound in 161 of 162 samples; a mean of a bit mask says nothing."""

    class Nvml:
        def __init__(self, mask: int) -> None:
            self.mask = mask

        def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: object) -> int:
            return self.mask

    read = {field.name: field.read for field in fields()}
    masks = [0x4] * 161 + [0x1]
    shares = {
        name: sum(map(float, (read[name](Nvml(m), None) for m in masks))) / 162 for name in read if "led_" in name
    }
    assert shares == {"throttled_by_power": pytest.approx(161 / 162), "throttled_by_heat": 0.0}
    assert read["throttled_by_heat"](Nvml(0x40 | 0x2), None) == 1


def test_a_gpu_that_answers_slowly_holds_up_neither_the_clock_nor_its_sibling(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nvml:
        class NVMLError(Exception):
            pass

    def read(nvml: object, gpu: int) -> float:
        time.sleep(0.3 if gpu else 0.0)
        return 100.0 + gpu

    @contextlib.contextmanager
    def two_gpus() -> Iterator[tuple[type[Nvml], tuple[int, ...]]]:
        yield Nvml, (0, 1)

    monkeypatch.setattr(telemetry, "_gpus", two_gpus)
    monkeypatch.setattr(telemetry, "fields", lambda: (Field("power", "W", read), Field("pcie_rx", "B/s", read, True)))
    with Recorder([os.getpid()]) as recorder:
        time.sleep(1.5)
    series = recorder.series()
    assert len(series.times) > 9
    assert series.column("0/power")[-1] == 100.0 and series.column("1/pcie_rx")[-1] == 101.0
    assert next(column.unit for column in series.columns if column.name == "1/power") == "W"


def test_a_field_that_a_gpu_does_not_have_reads_as_none() -> None:
    from ungate.measure.telemetry import _guarded

    class Nvml:
        class NVMLError(Exception):
            pass

        def nvmlDeviceGetPowerUsage(self, gpu: object) -> int:
            raise self.NVMLError("not supported")

    power = next(field for field in fields() if field.name == "power")
    assert _guarded(power, Nvml(), None) is None
    assert _guarded(Field("clock", "MHz", lambda nvml, gpu: nvml.absent(gpu)), Nvml(), None) is None
