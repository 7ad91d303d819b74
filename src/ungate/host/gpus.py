"""What NVML says about the GPUs and the paths between them; each reading is guarded alone, and missing is None."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ungate.errors import Refusal
from ungate.model import KNOWN_ARCHS, Target

__all__ = ["Gpu", "Link", "Reading", "local_target", "read"]

T = TypeVar("T")

# nvmlGpuTopologyLevel_t and nvmlGpuP2PStatus_t of nvml.h; the short names are those of `nvidia-smi topo`.
_PATHS = {0: "internal", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_READ, _WRITE, _NVLINK, _ATOMICS = 0, 1, 2, 3  # nvmlGpuP2PCapsIndex_t; nvidia-ml-py spells the first as a tuple
_P2P_OK = 0
_P2P_REASONS = {
    1: "the chipset does not support it",
    2: "the GPU does not support it",
    3: "the I/O hub topology does not support it",
    4: "a driver registry key disables it",
    5: "it is not supported",
}


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. Sizes in bytes, power in watts; ``capability`` is 10 * major + minor (120 = sm_120).

    ``pcie_generation`` and ``pcie_width`` are of now (an idle GPU lowers them), the others the most the link can do.
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    bus: str | None = None
    capability: int | None = None
    memory: int | None = None
    bar1: int | None = None
    power_limit: float | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    nvlinks: int | None = None
    numa: int | None = None
    iommu_group: int | None = None
    iommu_type: str | None = None
    acs_redirect: bool | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """The path between two GPUs as the driver states it.

    ``read`` and ``write``: whether one may read or write the other's memory (None: not known). ``path`` is the
    PCIe distance in the words of ``nvidia-smi topo`` (PIX, PXB, PHB, NODE, SYS).
    """

    first: int
    second: int
    read: bool | None = None
    write: bool | None = None
    atomics: bool | None = None
    nvlink: bool | None = None
    path: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """All that NVML said. ``note`` says in words why there is nothing."""

    gpus: tuple[Gpu, ...] = ()
    links: tuple[Link, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    note: str = ""


def _guarded(ask: Callable[..., Any], *arguments: object) -> Any:
    """The answer, or None where the GPU, the driver or the library does not have it."""
    with contextlib.suppress(Exception):  # NVMLError of any kind, and FunctionNotFound of an older driver
        return ask(*arguments)
    return None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return value if isinstance(value, str) and value else None


def _nvlinks(nvml: Any, handle: Any) -> int | None:
    states = [_guarded(nvml.nvmlDeviceGetNvLinkState, handle, link) for link in range(nvml.NVML_NVLINK_MAX_LINKS)]
    known = [state for state in states if state is not None]
    return sum(state == 1 for state in known) if known else None


def _gpu(nvml: Any, index: int, handle: Any) -> Gpu:
    capability = _guarded(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    memory = _guarded(nvml.nvmlDeviceGetMemoryInfo, handle)
    bar1 = _guarded(nvml.nvmlDeviceGetBAR1MemoryInfo, handle)
    pci = _guarded(nvml.nvmlDeviceGetPciInfo, handle)
    power = _whole(_guarded(nvml.nvmlDeviceGetEnforcedPowerLimit, handle))
    return Gpu(
        index=index,
        name=_text(_guarded(nvml.nvmlDeviceGetName, handle)),
        uuid=_text(_guarded(nvml.nvmlDeviceGetUUID, handle)),
        bus=_text(getattr(pci, "busId", None)),
        capability=10 * capability[0] + capability[1] if capability else None,
        memory=_whole(getattr(memory, "total", None)),
        bar1=_whole(getattr(bar1, "bar1Total", None)),
        power_limit=power / 1000 if power else None,
        pcie_generation=_whole(_guarded(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle)),
        pcie_generation_max=_whole(_guarded(nvml.nvmlDeviceGetMaxPcieLinkGeneration, handle)),
        pcie_width=_whole(_guarded(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle)),
        pcie_width_max=_whole(_guarded(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle)),
        nvlinks=_nvlinks(nvml, handle),
    )


def _link(nvml: Any, first: int, second: int, one: Any, other: Any) -> Link:
    def allowed(what: int) -> bool | None:
        status = _guarded(nvml.nvmlDeviceGetP2PStatus, one, other, what)
        return None if status is None or status not in {_P2P_OK, *_P2P_REASONS} else status == _P2P_OK

    status = _guarded(nvml.nvmlDeviceGetP2PStatus, one, other, _READ)
    level = _guarded(nvml.nvmlDeviceGetTopologyCommonAncestor, one, other)
    return Link(
        first,
        second,
        read=allowed(_READ),
        write=allowed(_WRITE),
        atomics=allowed(_ATOMICS),
        nvlink=allowed(_NVLINK),
        path=_PATHS.get(level) if isinstance(level, int) else None,
        reason=_P2P_REASONS.get(status, "") if isinstance(status, int) else "",
    )


def read() -> Reading:
    """Ask NVML. Never raises: without a driver the reading is empty and ``note`` says why."""
    try:
        import pynvml as nvml
    except ImportError as error:
        return Reading(note=f"NVML's Python binding cannot be imported ({error})")
    try:
        nvml.nvmlInit()
    except Exception as error:
        return Reading(note=f"NVML does not start: {error}")
    try:
        count = _whole(_guarded(nvml.nvmlDeviceGetCount)) or 0
        handles = [_guarded(nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
        gpus = tuple(
            _gpu(nvml, index, handle) if handle is not None else Gpu(index) for index, handle in enumerate(handles)
        )
        pairs = [(one, other) for one in range(count) for other in range(one + 1, count)]
        links = tuple(_link(nvml, one, other, handles[one], handles[other]) for one, other in pairs)
        cuda = _whole(_guarded(nvml.nvmlSystemGetCudaDriverVersion_v2))
        driver = _text(_guarded(nvml.nvmlSystemGetDriverVersion))
        version = f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None
        return Reading(gpus, links, driver, version, "" if gpus else "the driver answers and lists no GPU")
    finally:
        _guarded(nvml.nvmlShutdown)


def local_target() -> Target:
    """The target of this machine's GPUs; Refusal where there is none, where they differ, or where it is not known."""
    found = {gpu.capability for gpu in read().gpus if gpu.capability}
    known = found & set(KNOWN_ARCHS)
    if len(known) == 1 and known == found:
        return Target(known.pop())
    if not found:
        raise Refusal(
            "No --target was given, and no NVIDIA GPU answers on this machine.",
            "Name one, for example: --target sm_120",
        )
    names = ", ".join(f"sm_{capability}" for capability in sorted(found))
    if len(found) > 1:
        raise Refusal(f"The GPUs of this machine differ ({names}).", f"Name one: --target sm_{min(found)}")
    raise Refusal(f"This machine's GPU is {names}, which ungate does not know.", "Name another: --target sm_120")
