"""Device memory in use."""

from __future__ import annotations

from ungate.measure.fields import Field, register

__all__: list[str] = []

register(Field("memory", "B", lambda nvml, gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used))
