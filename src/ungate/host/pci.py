"""PCIe facts from sysfs: NUMA node, IOMMU group and access control (ACS) on the way from a GPU to the root.

ACS decides whether a peer's write may turn round in a switch: with *P2P request redirect* or *P2P completion redirect*
set on a bridge, it goes up to the root complex instead, where an IOMMU may drop it. (PCI Express Base Specification,
"Access Control Services": extended capability 000Dh, control register at offset 6, bits 2 and 3.)
"""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Device", "address", "device", "nvidia_devices"]

_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ACS, _FIRST_EXTENDED = 0x000D, 0x100
_REDIRECT = 0b1100  # P2P request redirect, P2P completion redirect
_NVIDIA = "0x10de"


@dataclass(frozen=True, slots=True)
class Device:
    """``acs_redirect``: a bridge above the device redirects peer traffic (None: the registers may not be read)."""

    address: str
    numa: int | None
    iommu_group: int | None
    iommu_type: str | None
    acs_redirect: bool | None


def address(bus: str) -> str:
    """NVML's ``00000000:01:00.0`` as sysfs spells it (``0000:01:00.0``)."""
    domain, _, rest = bus.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _redirects(config: bytes) -> bool | None:
    """Whether a bridge's configuration space turns peer traffic away; None where the extended part cannot be read."""
    if len(config) <= _FIRST_EXTENDED:
        return None  # without privilege the kernel gives 64 bytes, and a virtual bridge may have 256
    offset, seen = _FIRST_EXTENDED, set[int]()
    while offset >= _FIRST_EXTENDED and offset not in seen and offset + 8 <= len(config):
        seen.add(offset)
        (header,) = struct.unpack_from("<I", config, offset)
        if header & 0xFFFF == _ACS:
            (control,) = struct.unpack_from("<H", config, offset + 6)
            return bool(control & _REDIRECT)
        offset = header >> 20
    return False  # no ACS capability: nothing is redirected here


def _bridges(place: Path) -> Iterator[Path]:
    for parent in place.parents:
        if _BDF.fullmatch(parent.name):
            yield parent


def _acs(place: Path) -> bool | None:
    answers: list[bool | None] = []
    for bridge in _bridges(place):
        try:
            answers.append(_redirects((bridge / "config").read_bytes()))
        except OSError:
            answers.append(None)
    if any(answers):
        return True
    return None if not answers or None in answers else False


def device(name: str, root: Path = Path("/")) -> Device:
    """The facts of one PCIe function; every field None where sysfs does not have it."""
    place = root / "sys/bus/pci/devices" / name
    numa = group = kind = None
    with contextlib.suppress(ValueError):
        numa = int(_text(place / "numa_node") or "")
    with contextlib.suppress(OSError, ValueError):
        group = int((place / "iommu_group").readlink().name)
        kind = _text(root / "sys/kernel/iommu_groups" / str(group) / "type")
    acs = _acs(place.resolve()) if place.exists() else None
    return Device(name, numa if numa is not None and numa >= 0 else None, group, kind, acs)


def nvidia_devices(root: Path = Path("/")) -> tuple[str, ...]:
    """Addresses of NVIDIA's display and 3D controllers on the bus, whether or not a driver has them."""
    found = []
    with contextlib.suppress(OSError):
        for place in sorted((root / "sys/bus/pci/devices").iterdir()):
            if _text(place / "vendor") == _NVIDIA and (_text(place / "class") or "").startswith("0x03"):
                found.append(place.name)
    return tuple(found)
