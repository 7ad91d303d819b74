"""``ungate doctor``: the host facts that decide the outcome."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ungate.cli.options import environment_options, json_option
from ungate.cli.output import document, paper, plain
from ungate.errors import Exit

if TYPE_CHECKING:
    from rich.console import Console

    from ungate.host.facts import HostFacts
    from ungate.host.gpus import Gpu, Link

__all__ = ["doctor"]

_UNKNOWN = "unknown"


@click.command()
@environment_options
@json_option
def doctor(site: Path | None, python: Path | None, as_json: bool) -> int:
    """Show the host facts that decide the outcome, and what to do next.

    GPUs, peer access, PCIe, IOMMU, virtual machine, driver, toolkit, package versions and whether they fit each other.
    What cannot be read is "unknown". The JSON of one host can be given to another: ungate check --facts host.json
    """
    from ungate.host import advice, environment, facts

    found = facts.collect(environment.resolve(site, python))
    steps = advice.next_steps(found)
    if as_json:
        record = plain(found)
        assert isinstance(record, dict)
        document({**record, "next_steps": steps})
    else:
        _print(paper(), found, steps)
    return Exit.DONE


def _said(value: object, unit: str = "") -> str:
    return _UNKNOWN if value is None else f"{value}{unit}"


def _gigabytes(size: int | None) -> str:
    return _UNKNOWN if size is None else f"{size / (1 << 30):.1f} GB" if size >= 1 << 30 else f"{size >> 20} MB"


def _yes(value: bool | None, yes: str, no: str) -> str:
    return _UNKNOWN if value is None else yes if value else no


def _machine(found: HostFacts) -> Iterator[tuple[str, str]]:
    machine = found.machine
    limit = f", limited to {machine.cpu_limit:g} by the container" if machine.cpu_limit else ""
    yield "system", f"{_said(machine.system)}, kernel {_said(machine.kernel)}, {_said(machine.architecture)}"
    yield "processor", f"{_said(machine.processor)}; {_said(machine.cores)} cores{limit}; {_gigabytes(machine.memory)}"
    named = "" if machine.hypervisor == "unnamed" else f" ({machine.hypervisor})"
    virtual = _yes(None if machine.hypervisor is None else bool(machine.hypervisor), f"yes{named}", "no")
    yield "virtual machine", virtual
    yield "container", _UNKNOWN if machine.container is None else machine.container or "no"
    yield "IOMMU", _said(machine.iommu)
    shared = f"{_gigabytes(machine.shared_memory)} in /dev/shm, {_gigabytes(machine.shared_memory_free)} free"
    yield "shared memory", shared


def _toolchain(found: HostFacts) -> Iterator[tuple[str, str]]:
    module = f", {found.machine.nvidia_module} kernel module" if found.machine.nvidia_module else ""
    yield "driver", f"{_said(found.driver)}{module}; CUDA up to {_said(found.cuda_driver)}"
    for tool in found.tools:
        yield tool.name, f"{_said(tool.version)}  {tool.path}"
    yield "compiles for", " ".join(found.codes) if found.codes else _UNKNOWN
    yield from found.arch_lists.items()


def _gpu_rows(found: HostFacts) -> Iterator[tuple[str, ...]]:
    yield "", "GPU", "arch", "memory", "PCIe now", "most", "NUMA", "IOMMU group", "ACS redirect"
    for gpu in found.gpus:
        yield (
            str(gpu.index),
            _said(gpu.name),
            f"sm_{gpu.capability}" if gpu.capability else _UNKNOWN,
            _gigabytes(gpu.memory),
            _lane(gpu.pcie_generation, gpu.pcie_width),
            _lane(gpu.pcie_generation_max, gpu.pcie_width_max),
            _said(gpu.numa),
            _group(gpu),
            _yes(gpu.acs_redirect, "yes", "no"),
        )


def _lane(generation: int | None, width: int | None) -> str:
    return _UNKNOWN if generation is None or width is None else f"Gen{generation} x{width}"


def _group(gpu: Gpu) -> str:
    return f"{_said(gpu.iommu_group)}{f' ({gpu.iommu_type})' if gpu.iommu_type else ''}"


def _peer_rows(found: HostFacts) -> Iterator[tuple[str, ...]]:
    """The matrix: may they read and write each other's memory, and how far apart they are."""
    links = {frozenset((link.first, link.second)): link for link in found.links}
    yield "", *(str(gpu.index) for gpu in found.gpus)
    for one in found.gpus:
        yield (
            str(one.index),
            *(_peer(links.get(frozenset((one.index, other.index))), one.index == other.index) for other in found.gpus),
        )


def _peer(link: Link | None, same: bool) -> str:
    if same:
        return "-"
    if link is None:
        return _UNKNOWN
    both = None if link.read is None or link.write is None else link.read and link.write
    far = "NVLink" if link.nvlink else link.path or ""
    return f"{_yes(both, 'yes', 'no')} {far}".strip()


def _columns(out: Console, rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for place, row in enumerate(rows):
        text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        out.print(f"  {text}", style="dim" if place == 0 else None, markup=False, no_wrap=True, overflow="ignore")


def _pairs(out: Console, title: str, pairs: Iterator[tuple[str, str]]) -> None:
    out.print(title, style="bold")
    listed = list(pairs)
    width = max((len(name) for name, _ in listed), default=0) + 2
    for name, value in listed:
        out.print(f"  {name:<{width}}", end="", style="dim", markup=False)
        out.print(value, markup=False, style="yellow" if value.startswith(_UNKNOWN) else None)


def _print(out: Console, found: HostFacts, steps: tuple[str, ...]) -> None:
    _pairs(out, "Machine", _machine(found))
    out.print("GPUs", style="bold")
    if found.gpus:
        _columns(out, list(_gpu_rows(found)))
    else:
        out.print(f"  none ({found.gpu_note or 'no reason was given'})", markup=False)
    if len(found.gpus) > 1:
        out.print("Peer access (read and write) and distance", style="bold")
        _columns(out, list(_peer_rows(found)))
    _pairs(out, "Toolchain", _toolchain(found))
    _pairs(out, "Packages", iter(found.packages.items() or (("", "none of those that ungate watches"),)))
    for sentence in found.skew:
        out.print(f"  {sentence}", style="yellow", markup=False)
    for sentence in found.unread:
        out.print(f"  {sentence}", style="yellow", markup=False)
    out.print("Next", style="bold")
    for step in steps:
        out.print(f"  • {step}", markup=False)
