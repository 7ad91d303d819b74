"""The host facts that decide the outcome, as one record that can be written on one machine and read on another."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from ungate.errors import Refusal
from ungate.host import gpus, machine, packages, pci, siblings, toolchain
from ungate.host.environment import Environment
from ungate.host.gpus import Gpu, Link
from ungate.host.machine import Machine
from ungate.host.toolchain import Tool

__all__ = ["FORMAT", "HostFacts", "collect", "load", "parse"]

FORMAT = 1
T = TypeVar("T")
_ARCH_LIST = re.compile(r"CUDA_ARCH_LIST$|^CUDAARCHS$|^CUDA_ARCHITECTURES$")


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What ``ungate doctor`` reads. None is *not known*, never zero and never no.

    ``gpus_on_bus`` are PCIe addresses of NVIDIA devices, whether or not a driver has them. ``packages`` maps the
    watched distributions to their versions; ``skew`` holds a sentence for each that does not fit another.
    ``codes`` is what nvcc can compile for, ``arch_lists`` the variables of the environment that tell builds for which
    architectures to compile. ``unread`` holds a sentence for each reading that failed in a way nobody foresaw.
    """

    format: int = FORMAT
    machine: Machine = field(default_factory=Machine)
    driver: str | None = None
    cuda_driver: str | None = None
    gpus: tuple[Gpu, ...] = ()
    links: tuple[Link, ...] = ()
    gpus_on_bus: tuple[str, ...] = ()
    gpu_note: str = ""
    tools: tuple[Tool, ...] = ()
    codes: tuple[str, ...] | None = None
    python: str | None = None
    roots: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    skew: tuple[str, ...] = ()
    arch_lists: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    @property
    def archs(self) -> tuple[int, ...]:
        """The compute capabilities of the GPUs (120 = sm_120), each once."""
        return tuple(sorted({gpu.capability for gpu in self.gpus if gpu.capability is not None}))

    @property
    def peer_access(self) -> bool | None:
        """Whether every GPU may read and write every other's memory; None with one GPU or where a pair is not known."""
        answers = [answer for link in self.links for answer in (link.read, link.write)]
        if any(answer is False for answer in answers):
            return False
        return True if answers and all(answers) else None

    def to_json(self) -> str:
        """One document that :func:`parse` reads back to an equal record."""
        return json.dumps(dataclasses.asdict(self), indent=1, default=str) + "\n"


def _with_bus(gpu: Gpu, root: Path) -> Gpu:
    if gpu.bus is None:
        return gpu
    found = pci.device(pci.address(gpu.bus), root)
    return dataclasses.replace(
        gpu,
        numa=found.numa,
        iommu_group=found.iommu_group,
        iommu_type=found.iommu_type,
        acs_redirect=found.acs_redirect,
    )


def collect(env: Environment, root: Path = Path("/")) -> HostFacts:
    """Read everything. A reading that fails leaves its field unknown and a sentence in ``unread``."""
    unread: list[str] = []

    def read(name: str, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except Exception as error:  # whatever one reading runs into, the others still count
            unread.append(f"{name} could not be read: {type(error).__name__}: {error}".rstrip(": ") + ".")
            return otherwise

    reading = read("What NVML says", gpus.read, gpus.Reading(note="NVML could not be asked"))
    versions: Mapping[str, str] = read("The list of packages", lambda: packages.versions(env), {})
    nothing: tuple[str, ...] = ()
    fits = read("Whether packages fit each other", lambda: siblings.skew(versions), nothing)
    pinned = read("What the engines pin", lambda: siblings.pins(env, versions), nothing)
    return HostFacts(
        machine=read("The machine", lambda: machine.read(root), Machine()),
        driver=reading.driver,
        cuda_driver=reading.cuda,
        gpus=tuple(
            read(f"The PCIe path of GPU {gpu.index}", partial(_with_bus, gpu, root), gpu) for gpu in reading.gpus
        ),
        links=reading.links,
        gpus_on_bus=read("The PCIe bus", lambda: pci.nvidia_devices(root), ()),
        gpu_note=reading.note,
        tools=read("The toolkit", toolchain.tools, ()),
        codes=read("What nvcc compiles for", toolchain.codes, None),
        python=str(env.python) if env.python else None,
        roots=tuple(map(str, env.roots)),
        packages={name: versions[name] for name in siblings.WATCHED if name in versions},
        skew=(*fits, *pinned),
        arch_lists={name: text for name, text in os.environ.items() if _ARCH_LIST.search(name) and text},
        unread=tuple(unread),
    )


def parse(text: str, where: str) -> HostFacts:
    """Facts from the JSON that ``ungate doctor --json`` printed; Refusal that names ``where`` for anything else."""
    from pydantic import TypeAdapter, ValidationError

    advice = "Write it on the host in question: ungate doctor --json > host.json"
    try:
        content = json.loads(text)
    except ValueError as error:
        raise Refusal(f"{where} is no JSON document ({error}).", advice) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Refusal(f"{where} does not hold host facts of format {FORMAT}.", advice)
    if unknown := content.keys() - {item.name for item in dataclasses.fields(HostFacts)} - {"next_steps"}:
        raise Refusal(f"{where} holds fields that no version of this format has: {', '.join(sorted(unknown))}.", advice)
    content.pop("next_steps", None)
    try:
        return TypeAdapter(HostFacts).validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Refusal(f"{where} does not hold host facts: {place}: {first['msg']}.", advice) from None


def load(path: Path) -> HostFacts:
    """Facts from a file; Refusal where it cannot be read or holds something else."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Refusal(
            f"The facts in {path} cannot be read: {reason}.", "Write them on the host: ungate doctor --json > host.json"
        ) from None
    return parse(text, str(path))
