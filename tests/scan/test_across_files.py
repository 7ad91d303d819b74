"""Gates whose set is written in another file than the test."""

from __future__ import annotations

from pathlib import Path

from ungate.host.packages import below
from ungate.model import KNOWN_ARCHS
from ungate.scan import scan

_FROM_90 = {90, 100, 103, 107, 110, 120, 121}
_INTERFACE = """\
class Platform:
    @classmethod
    def is_arch_support_pdl(cls):
        return False

    @classmethod
    def supports_fp8(cls):
        return False
"""
_CUDA = """\
import torch
from engine.platforms.interface import Platform


class CudaPlatformBase(Platform):
    @classmethod
    def is_arch_support_pdl(cls):
        try:
            major, _ = torch.cuda.get_device_capability(0)
        except Exception:
            return False
        return major >= 9

    @classmethod
    def supports_fp8(cls):
        return cls.has_device_capability(89)
"""
_PLATFORMS = """\
from typing import TYPE_CHECKING

from .interface import Platform

if TYPE_CHECKING:
    current_platform: Platform
"""


def _passes(root: Path, files: dict[str, str], of: str) -> dict[int, set[int] | None]:
    """The line and the set of each gate of one file; None where it is not known for every arch."""
    for name, text in files.items():
        place = root / "engine" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (root / "engine-1.0.dist-info").mkdir()
    (root / "engine-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: engine\nVersion: 1.0\n")
    found = scan(below(root), jobs=1, use_cache=False).gates
    return {
        gate.line: set(gate.passes.yes) if gate.passes.decided else None
        for gate in found
        if gate.file == f"engine/{of}"
    }


def test_a_declared_platform_is_the_one_of_cuda(tmp_path: Path) -> None:
    use = """\
from engine.platforms import current_platform

def f():
    g(launch_pdl=current_platform.is_arch_support_pdl())
    if current_platform.supports_fp8():
        return 1
"""
    files = {
        "platforms/interface.py": _INTERFACE,
        "platforms/cuda.py": _CUDA,
        "platforms/__init__.py": _PLATFORMS,
        "use.py": use,
    }
    assert _passes(tmp_path, files, "use.py") == {4: _FROM_90, 5: _FROM_90 | {89}}


def test_a_predicate_made_of_one_with_arguments_is_followed(tmp_path: Path) -> None:
    utils = """\
import torch

def _check(cc_major):
    if not is_cuda():
        return False
    return torch.cuda.get_device_capability()[0] == cc_major and cuda_version() >= (12, 3)

is_new_gpu = lambda: _check(9)
"""
    use = "from engine.utils import is_new_gpu\n\nif is_new_gpu():\n    pass\n"
    files = {"utils.py": utils, "use.py": use}
    assert _passes(tmp_path, files, "use.py") == {3: {90}}


def test_a_reader_that_asks_several_makers_reads_the_capability(tmp_path: Path) -> None:
    utils = """\
import torch

def get_device_capability(device=0):
    major, minor = None, None
    if hasattr(torch, "cuda") and torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability(device)
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        major, minor, *_ = torch.xpu.get_device_capability(device)["version"].split(".")
        major, minor = int(major), int(minor)
    return major, minor
"""
    use = """\
from engine.utils import get_device_capability

def supported():
    major, minor = get_device_capability()
    if major == 8 and minor == 9:
        return True
    return False
"""
    assert _passes(tmp_path, {"utils.py": utils, "use.py": use}, "use.py") == {5: {89}}


def test_the_default_of_a_base_class_decides_for_none_of_those_derived_from_it(tmp_path: Path) -> None:
    base = """\
class OpBase:
    CUDA_MINIMUM_COMPUTE_CAPABILITY = (5, 0)

    @classmethod
    def reasons(cls, device):
        if torch.cuda.get_device_capability(device) < cls.CUDA_MINIMUM_COMPUTE_CAPABILITY:
            return "too old"
"""
    op = "from engine.base import OpBase\n\nclass Op(OpBase):\n    CUDA_MINIMUM_COMPUTE_CAPABILITY = (9, 0)\n"
    assert _passes(tmp_path, {"base.py": base, "op.py": op}, "base.py") == {2: set(KNOWN_ARCHS), 6: None}


def test_flags_that_are_appended_for_each_arch_are_those_that_are_built_for(tmp_path: Path) -> None:
    context = """\
class Context:
    COMMON = ["-O3"]

    def __init__(self):
        self.TARGET_CUDA_ARCHS = set()

    def get_nvcc_flags_list(self, old=False):
        flags = []
        for major, minor in sorted(self.TARGET_CUDA_ARCHS):
            if old and major == 10:
                flags.append("-gencode=arch=compute_100f,code=sm_100f")
            else:
                flags.append(f"-gencode=arch=compute_{major}{minor},code=sm_{major}{minor}")
        return flags + self.COMMON
"""
    use = """\
from engine.context import Context

def detect():
    gencode_flags_list = Context().get_nvcc_flags_list()

    def has_sm(compute, version):
        if not any(compute in flag for flag in gencode_flags_list):
            return False
        return get_cuda_version() >= Version(version)

    return {"sm90": has_sm("compute_90", "12.3"), "flags": [f for f in gencode_flags_list if f.startswith("-gencode")]}
"""
    found = _passes(tmp_path, {"context.py": context, "use.py": use}, "use.py")
    assert found[11] == {90}
