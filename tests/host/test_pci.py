from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ungate.host import pci


def config(*capabilities: tuple[int, int], size: int = 4096) -> bytes:
    """Configuration space with a chain of extended capabilities (identity, ACS control word)."""
    space = bytearray(size)
    for place, (identity, control) in enumerate(capabilities):
        offset = 0x100 + 0x40 * place
        following = offset + 0x40 if place + 1 < len(capabilities) else 0
        struct.pack_into("<I", space, offset, identity | 1 << 16 | following << 20)
        struct.pack_into("<H", space, offset + 6, control)
    return bytes(space)


def make(root: Path, bridge: bytes | None, *, numa: str = "1", group: int | None = 42) -> None:
    """A GPU 0000:02:00.0 below a bridge 0000:01:00.0, as sysfs lays them out."""
    place = root / "sys/devices/pci0000:00/0000:01:00.0/0000:02:00.0"
    place.mkdir(parents=True)
    (place / "numa_node").write_text(f"{numa}\n")
    (place / "vendor").write_text("0x10de\n")
    (place / "class").write_text("0x030200\n")
    if bridge is not None:
        (place.parent / "config").write_bytes(bridge)
    if group is not None:
        (root / f"sys/kernel/iommu_groups/{group}").mkdir(parents=True)
        (root / f"sys/kernel/iommu_groups/{group}/type").write_text("DMA-FQ\n")
        (place / "iommu_group").symlink_to(root / f"sys/kernel/iommu_groups/{group}")
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "sys/bus/pci/devices/0000:02:00.0").symlink_to(place)


def test_addresses_of_nvml_and_sysfs() -> None:
    assert pci.address("00000000:C1:00.0") == "0000:c1:00.0"
    assert pci.address("0000FFFF:01:00.0") == "ffff:01:00.0"


@pytest.mark.parametrize(
    ("bridge", "redirects"),
    [
        pytest.param(config((0x0001, 0), (0x000D, 0b0000)), False, id="ACS without redirect"),
        pytest.param(config((0x0001, 0), (0x000D, 0b0011101)), True, id="request and completion redirect"),
        pytest.param(config((0x000D, 0b1000)), True, id="completion redirect alone"),
        pytest.param(config((0x0001, 0b1111)), False, id="no ACS capability"),
        pytest.param(bytes(64), None, id="what a user may read"),
        pytest.param(bytes(256), None, id="a bridge without extended space"),
        pytest.param(None, None, id="no configuration space"),
    ],
)
def test_access_control_on_the_way_up(tmp_path: Path, bridge: bytes | None, redirects: bool | None) -> None:
    make(tmp_path, bridge)
    assert pci.device("0000:02:00.0", tmp_path) == pci.Device("0000:02:00.0", 1, 42, "DMA-FQ", redirects)


def test_a_chain_that_bites_its_tail_ends(tmp_path: Path) -> None:
    space = bytearray(config((0x0001, 0)))
    struct.pack_into("<I", space, 0x100, 0x0001 | 1 << 16 | 0x100 << 20)
    make(tmp_path, bytes(space))
    assert pci.device("0000:02:00.0", tmp_path).acs_redirect is False


def test_no_numa_node_is_unknown_and_not_minus_one(tmp_path: Path) -> None:
    make(tmp_path, None, numa="-1", group=None)
    assert pci.device("0000:02:00.0", tmp_path) == pci.Device("0000:02:00.0", None, None, None, None)


def test_a_device_that_is_not_there_is_unknown(tmp_path: Path) -> None:
    assert pci.device("0000:09:00.0", tmp_path) == pci.Device("0000:09:00.0", None, None, None, None)
    assert pci.nvidia_devices(tmp_path) == ()


def test_devices_on_the_bus(tmp_path: Path) -> None:
    make(tmp_path, None)
    audio = tmp_path / "sys/bus/pci/devices/0000:02:00.1"
    audio.mkdir()
    (audio / "vendor").write_text("0x10de\n")
    (audio / "class").write_text("0x040300\n")
    assert pci.nvidia_devices(tmp_path) == ("0000:02:00.0",)
