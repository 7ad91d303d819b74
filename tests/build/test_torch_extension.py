"""PyTorch's extensions, from a function that loads one and from a setup.py, with a small torch beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ungate.build import sass
from ungate.build.compile import compile_module, effective_target
from ungate.build.descriptions import Wanted, describe
from ungate.build.unit import Module
from ungate.errors import Refusal
from ungate.host.packages import Package
from ungate.model import Target

TORCH = """
COMMON_NVCC_FLAGS = [
    '-D__CUDA_NO_HALF_OPERATORS__',
    '--expt-relaxed-constexpr'
]
def _write_ninja_file(cuda_flags):
    if not any(flag.startswith('-std=') for flag in cuda_flags):
        cuda_flags.append('-std=c++20')
"""
LOADER = """
import os
import torch
ARCHS = {(10, 0): "100a", (10, 3): "103a"}

def load_ext():
    from torch.utils import cpp_extension
    from kit.recovery import load_with_recovery
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "csrc/k.cu")
    stubs = os.path.join(cpp_extension.CUDA_HOME or "/usr/local/cuda", "lib64")
    capability = torch.cuda.get_device_capability()
    if capability not in ARCHS:
        raise RuntimeError(f"needs SM100 or SM103, got SM{capability[0]}{capability[1]}")
    arch = ARCHS[capability]
    return load_with_recovery(name=f"k_sm{arch}", sources=[source, "binding.cpp"],
                              extra_cuda_cflags=["-O3", "-gencode", f"arch=compute_{arch},code=sm_{arch}"],
                              extra_ldflags=[f"-L{stubs}"])

def load_plain():
    from torch.utils.cpp_extension import load
    return load(name="plain", sources=[os.path.join(os.path.dirname(__file__), "csrc/k.cu")])

def load_text():
    from torch.utils.cpp_extension import load_inline
    return load_inline(name="text", cpp_sources="", cuda_sources=["__global__ void t(int* a) { a[0] = VALUE; }"],
                       extra_cuda_cflags=["-DVALUE=3", "-std=c++17"])

def load_host():
    from torch.utils.cpp_extension import load
    return load(name="host", sources=["binding.cpp"])

def helper():
    return 1
"""
RECOVERY = """
import fcntl
def load_with_recovery(name, sources, extra_cuda_cflags=None, extra_ldflags=None):
    with open("lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
"""
SETUP = """
import os, subprocess
from setuptools import setup, find_packages
from torch.utils.cpp_extension import BuildExtension, CUDAExtension, CUDA_HOME

here = os.path.dirname(os.path.abspath(__file__))
ext_modules, flags = [], []
raw = subprocess.check_output([CUDA_HOME + "/bin/nvcc", "-V"])
for arch in ("80", "90"):
    flags.append("-gencode")
    flags.append(f"arch=compute_{arch},code=sm_{arch}")
if os.environ.get("SKIP") is None:
    ext_modules.append(CUDAExtension(
        name="kit.kit_cuda",
        sources=["kit/csrc/k.cu", "kit/csrc/bind.cpp"],
        extra_compile_args={"cxx": ["-O3"], "nvcc": ["-O3", "-DKIT"] + flags},
        include_dirs=[os.path.join(here, "kit", "include")],
    ))
setup(name="kit", packages=find_packages(), ext_modules=ext_modules, cmdclass={"build_ext": BuildExtension})
"""
KERNEL = """
#include <torch/extension.h>
__global__ void k(float* a) { a[threadIdx.x] = 1.f; }
__global__ void closed(float* a) {
#if __CUDA_ARCH__ < 1200
  a[0] = 2.f;
#endif
}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    files = {
        "torch/utils/cpp_extension.py": TORCH,
        "torch/include/torch/extension.h": "#pragma once\n",
        "torch/include/torch/types.h": "#pragma once\n",
        "kit/__init__.py": "",
        "kit/loader.py": LOADER,
        "kit/recovery.py": RECOVERY,
        "kit/csrc/k.cu": KERNEL,
        "kit/include/kit.h": "",
        "setup.py": SETUP,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def extension(site: Path, build: str, target: str = "sm_120", torch: bool = True) -> Module:
    def neighbour(name: str) -> Package | None:
        return Package(name, "2.13.0", site, ("torch",)) if torch and name == "torch" else None

    def companion(name: str) -> Package:
        raise AssertionError(f"{name} is not needed")

    return describe(Wanted(build, Package("kit", "1.0", site, ("kit",)), Target.parse(target), companion, neighbour))


def test_a_function_that_loads_names_sources_flags_and_its_own_target(site: Path) -> None:
    module = extension(site, "kit.loader:load_ext", "sm_100")
    assert (module.name, module.suffix, module.file) == ("k_sm100a", "a", "kit/loader.py")
    assert module.sources == (site / "kit/csrc/k.cu",)
    assert module.flags == (
        *("-D__CUDA_NO_HALF_OPERATORS__", "--expt-relaxed-constexpr", "-DTORCH_EXTENSION_NAME=k_sm100a"),
        *("-DTORCH_API_INCLUDE_EXTENSION_H", "-O3", "-std=c++20"),
    )
    assert site / "torch/include" in module.includes
    assert str(effective_target(module, Target(100))) == "sm_100a"
    assert (site / module.file).read_text().splitlines()[module.line - 1].strip().startswith("return load_with_rec")


def test_a_plain_one_is_built_for_the_bare_target(site: Path) -> None:
    module = extension(site, "kit.loader:load_plain")
    assert (module.suffix, module.notes) == ("", ())
    assert module.sources == (site / "kit/csrc/k.cu",)


def test_one_whose_text_is_in_the_python(site: Path) -> None:
    module = extension(site, "kit.loader:load_text")
    (unit,) = module.generated
    assert unit.text.endswith("__global__ void t(int* a) { a[0] = VALUE; }")
    assert unit.text.startswith("#include <torch/types.h>")
    assert ("-std=c++17" in module.flags, "-std=c++20" in module.flags) == (True, False)


def test_a_setup_script_is_followed_past_what_asks_the_machine(site: Path) -> None:
    module = extension(site, "setup:kit_cuda")
    assert module.name == "kit.kit_cuda"
    assert module.sources == (site / "kit/csrc/k.cu",)
    assert {"-DKIT", "-O3", "-DTORCH_EXTENSION_NAME=kit_cuda"} <= set(module.flags)
    assert not any("gencode" in flag or "arch=" in flag for flag in module.flags)
    assert module.includes[0] == site / "kit/include"
    assert module.notes == ("its own flags build for sm_80 sm_90 alone: on sm_120 nothing of it would be there",)
    assert extension(site, "setup:kit_cuda", "sm_90").notes == ()


def test_flags_that_hang_on_the_machine_are_left_out_and_said(site: Path) -> None:
    setup = site / "setup.py"
    setup.write_text(
        SETUP.replace('for arch in ("80", "90"):', "if raw > 12:\n    flags.append('-x')\nfor arch in ('80',):")
    )
    module = extension(site, "setup:kit_cuda")
    assert module.notes == ("its own flags could not be followed",)
    assert "-DKIT" not in module.flags


@pytest.mark.parametrize(
    ("build", "words", "torch"),
    [
        pytest.param(
            "kit.loader:load_ext", "itself refuses to build 'load_ext' for sm_120: needs SM100", True, id="gate"
        ),
        pytest.param("kit.loader:load_plain", "torch is not in that environment", False, id="no torch"),
        pytest.param("kit.loader:load_host", "has no CUDA source", True, id="host code alone"),
        pytest.param("kit.loader:helper", "could not be read from its files", True, id="builds nothing"),
        pytest.param("setup:other", "makes no CUDAExtension named 'other'", True, id="another name"),
    ],
)
def test_what_cannot_be_built_is_a_sentence(site: Path, build: str, words: str, torch: bool) -> None:
    with pytest.raises(Refusal, match=words):
        extension(site, build, torch=torch)


def test_a_package_of_compiled_libraries_alone_says_so(tmp_path: Path) -> None:
    """vLLM's wheels: several libraries and no CUDA source."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/_custom_ops.py").write_text("def rms_norm(): ...\n")
    for name in ("_C.abi3.so", "_moe_C.abi3.so"):
        (tmp_path / "vllm" / name).touch()
    vllm = Package("vllm", "0.24.0", tmp_path, ("vllm",))
    with pytest.raises(Refusal, match="comes as 2 compiled libraries without their CUDA sources") as caught:
        describe(Wanted("vllm._custom_ops:rms_norm", vllm, Target(120), lambda name: vllm))
    assert caught.value.next_step.startswith("See what they hold code for: cuobjdump -lelf")


@pytest.mark.toolkit
def test_the_extension_compiles_and_its_hollow_kernel_is_seen(site: Path) -> None:
    module = extension(site, "kit.loader:load_plain")
    (unit,) = compile_module(module, Target(120), site / "out")
    assert unit.cubin is not None, unit.complaints
    (image,) = sass.read(unit.cubin)
    assert image.arch == "sm_120"
    assert {kernel.title.partition("(")[0]: str(kernel.effect) for kernel in image.kernels} == {
        "k": "present",
        "closed": "hollow",
    }
    (inline,) = compile_module(extension(site, "kit.loader:load_text"), Target(120), site / "out")
    assert inline.cubin is not None, inline.complaints
    assert inline.source.read_text().endswith("a[0] = VALUE; }")
