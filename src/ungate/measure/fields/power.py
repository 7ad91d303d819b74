"""Power draw of the board, the limit that is in force, and the energy used so far."""

from __future__ import annotations

from typing import Any

from ungate.measure.fields import Field, register

__all__: list[str] = []


def _power(nvml: Any, gpu: Any) -> float:
    """The draw at this moment where the driver tells it, else its own mean over the last second.

    The mean carries the load of one phase into the next, which is wrong for an idle sample of a second.
    """
    try:
        (field,) = nvml.nvmlDeviceGetFieldValues(gpu, [nvml.NVML_FI_DEV_POWER_INSTANT])
        if field.nvmlReturn == nvml.NVML_SUCCESS and field.value.uiVal:
            return float(field.value.uiVal) / 1000
    except (nvml.NVMLError, AttributeError, TypeError, ValueError):
        pass
    return float(nvml.nvmlDeviceGetPowerUsage(gpu)) / 1000


register(
    Field("power", "W", _power),
    Field("power_limit", "W", lambda nvml, gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000),
    Field("energy", "J", lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000),
)
