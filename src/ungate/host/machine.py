"""The machine around the GPUs: virtual or not, container or not, IOMMU, memory, cores."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Machine", "read"]

_CONTAINERS = re.compile(r"docker|kubepods|containerd|libpod|lxc|crio")


@dataclass(frozen=True, slots=True)
class Machine:
    """Sizes in bytes. ``cores`` are those this process may use, ``cpu_limit`` a container's quota in cores.

    ``container`` and ``hypervisor`` are ``""`` where there is none, and None where it is not known.
    ``iommu`` is ``off``, ``on`` or ``passthrough`` (the kernel command line says ``iommu=pt``).
    """

    system: str | None = None
    kernel: str | None = None
    architecture: str | None = None
    processor: str | None = None
    cores: int | None = None
    cpu_limit: float | None = None
    memory: int | None = None
    shared_memory: int | None = None
    shared_memory_free: int | None = None
    locked_memory_limit: str | None = None
    hypervisor: str | None = None
    product: str | None = None
    container: str | None = None
    iommu: str | None = None
    nvidia_module: str | None = None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _line(path: Path) -> str | None:
    text = (_text(path) or "").strip()
    return text.splitlines()[0].strip() if text else None


def _field(text: str | None, pattern: str) -> str | None:
    match = re.search(pattern, text or "", re.MULTILINE)
    return match[1].strip() if match else None


def _product(root: Path) -> str | None:
    words = [_line(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name")]
    return " ".join(word for word in words if word) or None


def _hypervisor(root: Path, cpuinfo: str | None, product: str | None) -> str | None:
    """The processor shows the flag ``hypervisor`` in a virtual machine (CPUID.1:ECX.31); its name is elsewhere."""
    named = _line(root / "sys/hypervisor/type") or product
    flags = _field(cpuinfo, r"^(?:flags|Features)\s*:(.*)$")
    if flags is None:
        return None
    if "hypervisor" not in flags.split():
        return "" if re.search(r"^flags", cpuinfo or "", re.MULTILINE) else None  # Arm has no such flag
    return named or "unnamed"


def _container(root: Path) -> str | None:
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if named := os.environ.get("container"):  # noqa: SIM112 - systemd's container interface spells it so
        return named
    groups = _text(root / "proc/1/cgroup")
    if groups is None:
        return None
    found = _CONTAINERS.search(groups)
    return found[0] if found else ""


def _iommu(root: Path) -> str | None:
    line = _text(root / "proc/cmdline")
    try:
        units = any((root / "sys/class/iommu").iterdir())
    except FileNotFoundError:
        units = False
    except OSError:
        return None
    if not units:
        return "off" if (root / "sys").is_dir() else None
    return "passthrough" if re.search(r"\biommu(?:\.passthrough)?=(?:pt|1)\b", line or "") else "on"


def _cpu_limit(root: Path) -> float | None:
    with contextlib.suppress(ValueError, ZeroDivisionError):
        quota, _, period = (_line(root / "sys/fs/cgroup/cpu.max") or "").partition(" ")
        return int(quota) / int(period)
    return None


def _shared(root: Path) -> tuple[int | None, int | None]:
    try:
        size = os.statvfs(root / "dev/shm")
    except OSError:
        return None, None
    return size.f_frsize * size.f_blocks, size.f_frsize * size.f_bavail


def _locked() -> str | None:
    """``ulimit -l``: a number of bytes, or ``unlimited``."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        return "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    return None


def _module(root: Path) -> str | None:
    """Which kernel module drives the GPUs: NVIDIA ships an open and a proprietary one, and peer access differs."""
    line = _line(root / "proc/driver/nvidia/version")
    if line is None:
        return None
    return "open" if "Open Kernel Module" in line else "proprietary"


def read(root: Path = Path("/")) -> Machine:
    """Read ``/proc`` and ``/sys`` below ``root``. Never raises; what is not there is None."""
    cpuinfo, meminfo = _text(root / "proc/cpuinfo"), _text(root / "proc/meminfo")
    memory = _field(meminfo, r"^MemTotal:\s*(\d+) kB")
    product = _product(root)
    shared, free = _shared(root)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Machine(
        system=(_field(_text(root / "etc/os-release"), r'^PRETTY_NAME="?([^"\n]*)') or platform.system() or None),
        kernel=platform.release() or None,
        architecture=platform.machine() or None,
        processor=_field(cpuinfo, r"^model name\s*:(.*)$"),
        cores=cores,
        cpu_limit=_cpu_limit(root),
        memory=int(memory) * 1024 if memory else None,
        shared_memory=shared,
        shared_memory_free=free,
        locked_memory_limit=_locked(),
        hypervisor=_hypervisor(root, cpuinfo, product),
        product=product,
        container=_container(root),
        iommu=_iommu(root),
        nvidia_module=_module(root),
    )
