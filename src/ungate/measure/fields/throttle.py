"""Why clocks are held down, as NVML's bit mask (power cap 0x4, thermal 0x20 and 0x40, power brake 0x80)."""

from __future__ import annotations

from ungate.measure.fields import Field, register

__all__: list[str] = []

register(
    Field("throttle_reasons", "bits", lambda nvml, gpu: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu)),
)
