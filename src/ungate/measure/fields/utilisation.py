"""Share of time in which a kernel was resident, and in which memory was read or written.

Residency, not work: a kernel that polls for a peer counts in full.
"""

from __future__ import annotations

from ungate.measure.fields import Field, register

__all__: list[str] = []

register(
    Field("utilisation", "%", lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu),
    Field("memory_utilisation", "%", lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).memory),
)
