"""What this Python and this machine have, and which candidates that leaves: one line of JSON behind a sign.

Packages are looked up and not imported, but for PyTorch: an engine's import takes seconds, and may start things.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import sys
from dataclasses import asdict
from typing import Any

from ungate.probe.candidates import Facts, candidates
from ungate.probe.serving import SIGN

__all__ = ["main", "survey"]

_MODULES = {
    "flashinfer": "flashinfer-python",
    "vllm": "vllm",
    "sglang": "sglang",
    "ungate_allreduce": "ungate-allreduce",
}
_SETTINGS = re.compile(r"NCCL_|GLOO_|TORCH_SYMM_MEM_|CUDA_VISIBLE_DEVICES$|CUDA_DEVICE_MAX_CONNECTIONS$")


def _modules() -> dict[str, str]:
    found = {}
    for module, distribution in _MODULES.items():
        if importlib.util.find_spec(module) is not None:
            try:
                found[module] = importlib.metadata.version(distribution)
            except importlib.metadata.PackageNotFoundError:
                found[module] = ""
    return found


def _peer(torch: Any, world: int) -> bool | None:
    pairs = [(one, other) for one in range(world) for other in range(world) if one != other]
    try:
        return all(torch.cuda.can_device_access_peer(*pair) for pair in pairs) if pairs else None
    except (RuntimeError, AssertionError):
        return None


def survey(device: str, world: int) -> Facts:
    """The facts; ``device`` is auto, cuda or cpu, and ``world`` 0 stands for the GPUs there are, or two on the CPU."""
    known: dict[str, Any] = {
        "python": platform.python_version(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "modules": _modules(),
        "settings": {name: text for name, text in sorted(os.environ.items()) if _SETTINGS.match(name)},
    }
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        return Facts(device="cpu" if device == "auto" else device, world=world or 2, **known)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        device = "cuda" if count >= 2 else "cpu"
    world = world or (max(2, count) if device == "cuda" else 2)
    used = range(min(count, world)) if device == "cuda" else range(0)
    properties = [torch.cuda.get_device_properties(index) for index in used]
    nccl = dist.is_available() and dist.is_nccl_available() and count > 0
    return Facts(
        device=device,
        world=world,
        torch=torch.__version__,
        cuda=torch.version.cuda,
        nccl=".".join(map(str, torch.cuda.nccl.version())) if nccl else None,
        gloo=dist.is_available() and dist.is_gloo_available(),
        visible=count,
        gpus=tuple(f"{each.name} {getattr(each, 'uuid', '')}".strip() for each in properties),
        capabilities=tuple(10 * each.major + each.minor for each in properties),
        peer=_peer(torch, len(properties)),
        **known,
    )


def _missing(facts: Facts, device: str) -> str:
    """What stands in the way of every candidate for this device; empty where nothing does."""
    if facts.torch is None:
        return "This Python has no PyTorch."
    if device == "cuda" and facts.visible < facts.world:
        seen = facts.visible or "none"
        return f"It takes a GPU for each of {facts.world} ranks, and PyTorch {facts.torch} of this Python sees {seen}."
    if device != facts.device:
        where = {"cuda": "GPU memory", "cpu": "host memory"}
        more = f" To measure it: ungate probe allreduce --device {device}"
        return f"It reduces tensors in {where[device]}, and these lie in {where[facts.device]}.{more}"
    if not facts.gloo:
        return f"PyTorch {facts.torch} of this Python was built without gloo, which the ranks need for control."
    return ""


def main() -> None:
    """Print the facts and, for each candidate, its record and the sentence that says why not."""
    asked = json.loads(sys.argv[1])
    facts = survey(asked["device"], asked["world"])
    found = [
        {
            "name": each.name,
            "what": each.what,
            "how": each.how,
            "device": each.device,
            "environment": dict(each.environment),
            "baseline": each.baseline,
            "setup_s": each.setup_s,
            "unavailable": _missing(facts, each.device) or each.unavailable(facts),
        }
        for each in candidates(asked["extra"])
    ]
    print(SIGN + json.dumps({"facts": asdict(facts), "candidates": found}), flush=True)


if __name__ == "__main__":
    main()
