from __future__ import annotations

from pathlib import Path

import pytest

from ungate.host import machine
from ungate.host.machine import Machine


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("KUBERNETES_SERVICE_HOST", "container"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_an_empty_root_is_unknown_throughout(root: Path) -> None:
    found = machine.read(root)
    names = ("processor", "memory", "shared_memory", "hypervisor", "product", "container", "iommu", "nvidia_module")
    assert [getattr(found, name) for name in names] == [None] * len(names)
    assert found.cpu_limit is None
    assert found.cores


def test_a_proxmox_guest(root: Path) -> None:
    write(root, "proc/cpuinfo", "processor : 0\nmodel name : AMD EPYC 9575F\nflags : fpu vme hypervisor lahf_lm\n")
    write(root, "sys/class/dmi/id/sys_vendor", "QEMU\n")
    write(root, "sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)\n")
    write(root, "proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\n")
    write(root, "etc/os-release", 'NAME=x\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n')
    found = machine.read(root)
    assert found.hypervisor == "QEMU Standard PC (Q35 + ICH9, 2009)"
    assert (found.processor, found.memory, found.system) == ("AMD EPYC 9575F", 1_024_000, "Ubuntu 24.04.3 LTS")


def test_bare_metal_is_known_to_be_that(root: Path) -> None:
    write(root, "proc/cpuinfo", "model name : AMD EPYC\nflags : fpu vme\n")
    write(root, "sys/class/dmi/id/product_name", "H13DSG-O-CPU\n")
    found = machine.read(root)
    assert (found.hypervisor, found.product) == ("", "H13DSG-O-CPU")


def test_a_guest_without_a_name_is_still_a_guest(root: Path) -> None:
    write(root, "proc/cpuinfo", "flags : hypervisor\n")
    assert machine.read(root).hypervisor == "unnamed"


def test_arm_has_no_such_flag_so_it_is_unknown(root: Path) -> None:
    write(root, "proc/cpuinfo", "Features : fp asimd\n")
    assert machine.read(root).hypervisor is None


@pytest.mark.parametrize(
    ("file", "text", "container"),
    [
        pytest.param(".dockerenv", "", "docker", id="docker"),
        pytest.param("run/.containerenv", "", "podman", id="podman"),
        pytest.param("proc/1/cgroup", "0::/kubepods/burstable/pod1\n", "kubepods", id="kubernetes by cgroup"),
        pytest.param("proc/1/cgroup", "0::/init.scope\n", "", id="none"),
    ],
)
def test_containers(root: Path, file: str, text: str, container: str) -> None:
    write(root, file, text)
    assert machine.read(root).container == container


@pytest.mark.parametrize(
    ("units", "line", "iommu"),
    [
        pytest.param(True, "quiet", "on", id="on"),
        pytest.param(True, "amd_iommu=on iommu=pt", "passthrough", id="passthrough"),
        pytest.param(False, "iommu=pt", "off", id="no unit"),
    ],
)
def test_iommu(root: Path, units: bool, line: str, iommu: str) -> None:
    write(root, "proc/cmdline", line)
    (root / "sys/class/iommu").mkdir(parents=True)
    if units:
        (root / "sys/class/iommu/ivhd0").mkdir()
    assert machine.read(root).iommu == iommu


@pytest.mark.parametrize(("text", "limit"), [("150000 100000\n", 1.5), ("max 100000\n", None), ("", None)])
def test_the_quota_of_a_container(root: Path, text: str, limit: float | None) -> None:
    write(root, "sys/fs/cgroup/cpu.max", text)
    assert machine.read(root).cpu_limit == limit


def test_the_kernel_module_is_told_apart(root: Path) -> None:
    write(root, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05\n")
    assert machine.read(root).nvidia_module == "open"
    write(root, "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05\n")
    assert machine.read(root).nvidia_module == "proprietary"


def test_this_machine_answers() -> None:
    found = machine.read()
    assert isinstance(found, Machine)
    assert found.memory
    assert found.memory > 1 << 28
    assert found.cores
