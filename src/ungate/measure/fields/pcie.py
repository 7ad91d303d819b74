"""PCIe traffic over 20 ms, as NVML counts it while the call waits."""

from __future__ import annotations

from ungate.measure.fields import Field, register

__all__: list[str] = []

register(
    Field("pcie_rx", "B/s", lambda n, gpu: n.nvmlDeviceGetPcieThroughput(gpu, n.NVML_PCIE_UTIL_RX_BYTES) * 1024, True),
    Field("pcie_tx", "B/s", lambda n, gpu: n.nvmlDeviceGetPcieThroughput(gpu, n.NVML_PCIE_UTIL_TX_BYTES) * 1024, True),
)
