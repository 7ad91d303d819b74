"""What a package would see on the machine it builds for, which this one need not be.

A build description asks PyTorch which GPU there is, nvcc for its version, and the environment for switches. Answered is
for one GPU of the target, the nvcc that compiles here, Linux, and an environment without switches.
"""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ungate.build.following import Foreign, Unknown
from ungate.host import toolchain
from ungate.host.packages import Package
from ungate.model import Target

__all__ = ["facts", "functions"]


def _nvcc() -> tuple[int, ...]:
    """The version of the nvcc that will compile, as (major, minor)."""
    nvcc = toolchain.tool("nvcc")
    if nvcc is None or nvcc.version is None:
        raise Unknown("it depends on nvcc's version, and no nvcc is here")
    return tuple(int(part) for part in nvcc.version.split(".")[:2])


def functions() -> dict[str, Any]:
    """Functions by which SGLang and FlashInfer ask for the compiler's version, answered without running it again."""
    return {
        "_jit_cuda_version": _nvcc,
        "get_cuda_version": _nvcc,
        "is_cuda_version_at_least": lambda least: _nvcc() >= tuple(int(part) for part in least.split(".")),
    }


def _properties(capability: tuple[int, int]) -> Foreign:
    """Of a device's properties only what the target itself says."""

    def look(name: str) -> Any:
        if name in {"major", "minor"}:
            return capability[name == "minor"]
        raise Unknown(f"it depends on the GPU's {name}")

    return Foreign(look)


def _spec(package: Package | None, name: str) -> Foreign | None:
    if package is None:
        return None
    folder = package.root / name.replace(".", "/")
    whole = folder / "__init__.py"
    values = {"origin": str(whole) if whole.is_file() else None, "submodule_search_locations": [str(folder)]}
    return Foreign(values.__getitem__)


def facts(target: Target, spec: Callable[[str], Package | None]) -> dict[str, Any]:
    """Full names of what is not followed, and what they are on that machine.

    ``spec`` finds an importable top-level package (``importlib.util.find_spec``).
    """
    capability = (target.major, target.minor)
    environment: dict[str, str] = {}
    return {
        "torch.cuda.current_device": lambda: 0,
        "torch.cuda.device_count": lambda: 1,
        "torch.cuda.get_device_capability": lambda *_: capability,
        "torch.cuda.get_device_name": lambda *_: "NVIDIA",
        "torch.cuda.get_device_properties": lambda *_: _properties(capability),
        "torch.cuda.is_available": lambda: True,
        **({"torch.version.cuda": ".".join(map(str, _nvcc()))} if toolchain.find("nvcc") else {}),
        "torch.version.hip": None,
        "torch.version.musa": None,
        "functools.cache": lambda function: function,
        "functools.lru_cache": lambda *_, **__: lambda function: function,
        "os.environ": environment,
        "os.getenv": environment.get,
        "os.path.abspath": os.path.abspath,
        "os.path.basename": os.path.basename,
        "os.path.dirname": os.path.dirname,
        "os.path.exists": os.path.exists,
        "os.path.join": os.path.join,
        "os.path.realpath": os.path.realpath,
        "os.path.splitext": os.path.splitext,
        "pathlib.Path": Path,
        "platform.machine": lambda: "x86_64",
        "platform.system": lambda: "Linux",
        "sys.platform": "linux",
        "shlex.quote": shlex.quote,
        "shutil.which": lambda name: None,
        "logging.getLogger": lambda *_: Foreign(lambda name: lambda *_, **__: None),
        "importlib.util.find_spec": lambda name: _spec(spec(name), name),
    }
