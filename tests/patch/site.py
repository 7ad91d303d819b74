"""A small environment with one distribution, written as an installer would write it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path

from ungate.host.packages import Package, below
from ungate.model import KNOWN_ARCHS, ArchSet, Form, Gate, Sense

__all__ = ["ENGINE", "KERNEL", "LIST", "PREDICATES", "again", "gate", "install", "story"]

PREDICATES = b"""import torch


def is_sm90():
    major, _ = torch.cuda.get_device_capability()
    return major == 9


def is_sm100():
    major, _ = torch.cuda.get_device_capability()
    return major == 10


def is_sm120():
    major, _ = torch.cuda.get_device_capability()
    return major == 12
"""

LIST = b"""from .flags import flags


def module():
    return flags(supported_major_versions=[9, 10])
"""

KERNEL = b"""#pragma once
__global__ void kernel(float* out) {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  out[threadIdx.x] = 1.f;
#endif
}
"""

ENGINE = b"""import torch

from kernels.predicates import (
    is_sm90,
    is_sm100,
)


def fuse(size):
    return (
        (is_sm90() or is_sm100())
        and size > 0
    )
"""


def install(site: Path, name: str, version: str, files: dict[str, bytes], *, installer: str = "pip") -> Package:
    """Write the files and a ``.dist-info`` with a true RECORD; returns the package."""
    info = f"{name}-{version}.dist-info"
    everything = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: torch\n".encode(),
        f"{info}/INSTALLER": f"{installer}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = []
    for file, content in everything.items():
        path = site / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{file},sha256={digest},{len(content)}\n")
    rows.append(f"{info}/RECORD,,\n")
    (site / info / "RECORD").write_text("".join(rows), encoding="utf-8")
    return next(package for package in below(site) if package.name == name)


def gate(
    package: Package,
    file: str,
    text: str,
    passes: Iterable[int],
    form: Form,
    *,
    nth: int = 0,
    names: tuple[str, ...] = (),
    sense: Sense = Sense.ALLOW,
    role: str = "test",
    symbol: str = "",
    unknown: bool = False,
) -> Gate:
    """A gate on the nth occurrence of a text, as the scan would report it."""
    data = (package.root / file).read_bytes()
    at = -1
    for _ in range(nth + 1):
        at = data.index(text.encode(), at + 1)
    line = data.count(b"\n", 0, at) + 1
    return Gate(
        id=hashlib.sha1(f"{file}{at}{text}".encode()).hexdigest()[:10],
        pattern="test",
        package=package.name,
        version=package.version,
        file=file,
        line=line,
        end_line=line + text.count("\n"),
        kind="test",
        condition=text,
        passes=ArchSet(frozenset(), frozenset(KNOWN_ARCHS)) if unknown else ArchSet.of(passes),
        role=role,
        form=form,
        span=(at, at + len(text.encode())),
        sense=sense,
        symbol=symbol,
        names=names,
    )


def story(site: Path) -> tuple[tuple[Package, ...], tuple[Gate, ...]]:
    """A library and an engine with a gate at each of three layers, all closed for sm_120."""
    kernels = install(
        site,
        "kernels",
        "1.0",
        {
            "kernels/__init__.py": b"",
            "kernels/predicates.py": PREDICATES,
            "kernels/flags.py": b"def flags(supported_major_versions):\n    return supported_major_versions\n",
            "kernels/jit.py": LIST,
            "kernels/include/fused.cuh": KERNEL,
        },
    )
    engine = install(site, "engine", "2.0", {"engine/__init__.py": b"", "engine/fuse.py": ENGINE})
    return (kernels, engine), (
        gate(
            engine,
            "engine/fuse.py",
            "is_sm90() or is_sm100()",
            (90, 100, 103, 107),
            Form.PYTHON_EXPRESSION,
            names=("is_sm90", "is_sm100"),
        ),
        gate(kernels, "kernels/jit.py", "[9, 10]", (90, 100, 103, 107), Form.INT_LIST),
        gate(
            kernels,
            "kernels/include/fused.cuh",
            "(defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))",
            (90, 100, 103, 107, 110),
            Form.PREPROCESSOR,
        ),
    )


def again(packages: tuple[Package, ...]) -> tuple[Gate, ...]:
    """The gates of the story's kernels once sm_120 was let in: still closed for sm_110."""
    kernels = next(package for package in packages if package.name == "kernels")
    now = (90, 100, 103, 107, 120, 121)
    header = (kernels.root / "kernels/include/fused.cuh").read_text()
    condition = next(line for line in header.splitlines() if line.startswith("#if "))[4:]
    return (
        gate(kernels, "kernels/jit.py", "[9, 10, 12]", now, Form.INT_LIST),
        gate(kernels, "kernels/include/fused.cuh", condition, (*now, 88), Form.PREPROCESSOR),
    )
