"""What to do next, given the host facts: one function a reason, each a sentence with a command or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable

from ungate.host.facts import HostFacts

__all__ = ["next_steps"]

_SMALL_SHARED_MEMORY = 1 << 30


def _gpu(facts: HostFacts) -> str | None:
    if facts.gpus:
        return None
    if facts.gpus_on_bus:
        return (
            f"{len(facts.gpus_on_bus)} NVIDIA device(s) are on the bus and no driver answers ({facts.gpu_note}): "
            "see what the kernel says: dmesg | grep -i nvrm"
        )
    return "No GPU answers here; reading and building need none, so name a target: ungate scan --target sm_120"


def _blind(facts: HostFacts) -> str | None:
    lost = [str(gpu.index) for gpu in facts.gpus if gpu.capability is None]
    return f"GPU {', '.join(lost)} does not answer: see nvidia-smi and dmesg | grep -i xid" if lost else None


def _peers(facts: HostFacts) -> str | None:
    if len(facts.gpus) < 2:
        return None
    if facts.peer_access is False:
        reason = next((link.reason for link in facts.links if link.reason), "")
        return (
            f"The GPUs may not map each other's memory{f' ({reason})' if reason else ''}, so that no edit can make a "
            "feature work that polls a peer; measure what does not need it: ungate-allreduce tune"
        )
    if facts.peer_access is None:
        return "Whether the GPUs may map each other's memory is not known: nvidia-smi topo -p2p rw"
    if facts.machine.hypervisor:
        return "The driver states peer access, but this is a virtual machine, so have it proved: ungate-allreduce tune"
    return None


def _redirect(facts: HostFacts) -> str | None:
    if not any(gpu.acs_redirect for gpu in facts.gpus):
        return None
    return (
        "A PCIe bridge above a GPU redirects peer traffic to the root complex (ACS), which slows or breaks it: "
        "sudo lspci -vvv | grep -e PCI -e ACSCtl"
    )


def _link(facts: HostFacts) -> str | None:
    narrow = [
        f"GPU {gpu.index} runs x{gpu.pcie_width} of x{gpu.pcie_width_max}"
        for gpu in facts.gpus
        if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max
    ]
    if not narrow:
        return None
    return f"{'; '.join(narrow)}: check the slot and the riser: nvidia-smi -q -d PCI"


def _toolkit(facts: HostFacts) -> str | None:
    there = {tool.name for tool in facts.tools}
    missing = [name for name in ("nvcc", "cuobjdump", "nvdisasm") if name not in there]
    if not missing:
        return None
    verb = "is" if len(missing) == 1 else "are"
    return f"{', '.join(missing)} {verb} missing, which ungate build needs: pip install 'ungate[toolchain]'"


def _too_old(facts: HostFacts) -> str | None:
    if not facts.codes:
        return None
    unknown = [f"sm_{arch}" for arch in facts.archs if f"sm_{arch}" not in facts.codes]
    return f"This nvcc cannot compile for {', '.join(unknown)}: pip install -U 'ungate[toolchain]'" if unknown else None


def _arch_lists(facts: HostFacts) -> str | None:
    """A list in the environment that leaves out the GPUs of this machine: builds then have nothing to compile for."""
    for name, text in facts.arch_lists.items():
        listed = {int(major) * 10 + int(minor) for major, minor in re.findall(r"(\d+)\.(\d)", text)}
        lost = [f"sm_{arch}" for arch in facts.archs if arch not in listed]
        if listed and lost and "+PTX" not in text:
            return f"{name}={text} leaves out {', '.join(lost)}, so that builds make nothing for it: unset {name}"
    return None


def _driver(facts: HostFacts) -> str | None:
    nvcc = next((tool.version for tool in facts.tools if tool.name == "nvcc" and tool.version), None)
    if nvcc is None or facts.cuda_driver is None:
        return None
    newest = tuple(map(int, re.findall(r"\d+", facts.cuda_driver)[:2]))
    if tuple(map(int, re.findall(r"\d+", nvcc)[:2])) <= newest:
        return None
    return (
        f"This nvcc ({nvcc}) is newer than the driver (CUDA {facts.cuda_driver}), which can then not compile its PTX: "
        "build machine code for the GPU itself, or update the driver and see again: ungate doctor"
    )


def _unread(facts: HostFacts) -> str | None:
    return f"{facts.unread[0]} Please report it with the output of: ungate doctor --json" if facts.unread else None


def _compiler(facts: HostFacts) -> str | None:
    return (
        None if any(tool.name == "g++" for tool in facts.tools) else "No C++ compiler is on PATH: apt-get install g++"
    )


def _shared_memory(facts: HostFacts) -> str | None:
    size = facts.machine.shared_memory
    if size is None or size >= _SMALL_SHARED_MEMORY or len(facts.gpus) < 2:
        return None
    return (
        f"/dev/shm has {size >> 20} MB, and NCCL and host-staged allreduce use it: "
        "start the container with --shm-size=16g or --ipc=host"
    )


def _skew(facts: HostFacts) -> str | None:
    if not facts.skew:
        return None
    return f"{facts.skew[0]} Bring them together before judging anything: pip install --no-deps NAME==VERSION"


def _engine(facts: HostFacts) -> str | None:
    if any(name in facts.packages for name in ("sglang", "vllm", "flashinfer-python")):
        return None
    return "No engine is installed in this environment; name the one that serves: ungate doctor --python PATH"


_REASONS: tuple[Callable[[HostFacts], str | None], ...] = (
    _gpu,
    _blind,
    _peers,
    _redirect,
    _link,
    _skew,
    _toolkit,
    _too_old,
    _arch_lists,
    _driver,
    _compiler,
    _shared_memory,
    _engine,
    _unread,
)


def next_steps(facts: HostFacts) -> tuple[str, ...]:
    """Sentences, the weightiest first; with nothing wrong, the one command that comes next."""
    said = tuple(sentence for reason in _REASONS if (sentence := reason(facts)))
    return said or ("Nothing stands in the way. See what is closed here: ungate scan",)
