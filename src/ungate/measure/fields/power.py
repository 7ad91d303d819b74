"""Power draw of the board and the limit that is in force."""

from __future__ import annotations

from ungate.measure.fields import Field, register

__all__: list[str] = []

register(
    Field("power", "W", lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000),
    Field("power_limit", "W", lambda nvml, gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000),
)
