"""SM and memory clocks."""

from __future__ import annotations

from ungate.measure.fields import Field, register

__all__: list[str] = []

register(
    Field("sm_clock", "MHz", lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
    Field("memory_clock", "MHz", lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)),
)
