"""Why clocks are held down: NVML's bit mask as it is, and for two reasons whether they hold (their mean is a share)."""

from __future__ import annotations

from typing import Any

from ungate.measure.fields import Field, register

__all__ = ["HEAT", "POWER"]

POWER = 0x4 | 0x80
"""Software power cap (nvmlClocksEventReasonSwPowerCap) and the hardware's power brake."""

HEAT = 0x8 | 0x20 | 0x40
"""Hardware slowdown, software and hardware thermal slowdown."""


def _reasons(nvml: Any, gpu: Any) -> int:
    return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu))


register(
    Field("throttle_reasons", "bits", _reasons),
    Field("throttled_by_power", "1", lambda nvml, gpu: bool(_reasons(nvml, gpu) & POWER)),
    Field("throttled_by_heat", "1", lambda nvml, gpu: bool(_reasons(nvml, gpu) & HEAT)),
)
