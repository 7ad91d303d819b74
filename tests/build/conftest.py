"""A small package that describes what it compiles as FlashInfer does, and a companion with headers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.host.packages import Package

ENV = """
import os, pathlib
_package_root: pathlib.Path = pathlib.Path(__file__).resolve().parents[1]
FLASHINFER_CACHE_DIR = pathlib.Path(os.getenv("HOME")) / ".cache"
FLASHINFER_GEN_SRC_DIR = FLASHINFER_CACHE_DIR / "generated"
FLASHINFER_DATA: pathlib.Path = _package_root / "data"
FLASHINFER_INCLUDE_DIR: pathlib.Path = FLASHINFER_DATA / "include"
FLASHINFER_CSRC_DIR: pathlib.Path = _package_root / "data" / "csrc"
CUTLASS_INCLUDE_DIRS: list[pathlib.Path] = [_package_root / "data" / "cutlass" / "include"]
"""
CORE = """
import os
sm89_nvcc_flags = ["-gencode=arch=compute_89,code=sm_89", "-DFP8"]
def gen_jit_spec(name, sources, extra_cflags=None, extra_cuda_cflags=None, extra_include_paths=None):
    debug = os.environ.get("DEBUG") == "1"
    cuda_cflags_has_std = extra_cuda_cflags is not None and any(f.startswith("-std=") for f in extra_cuda_cflags)
    cflags = ["-Wno-switch-bool"]
    cuda_cflags = [f"--threads={os.environ.get('N', '1')}", "-use_fast_math"]
    if not cuda_cflags_has_std:
        cuda_cflags.insert(0, "-std=c++17")
    if debug:
        cuda_cflags += ["-g", "-G"]
    else:
        cuda_cflags += ["-DNDEBUG", "-O3"]
        cflags += ["-O3"]
    if os.environ.get("LINEINFO", "0") == "1":
        cuda_cflags += ["-lineinfo"]
    if extra_cuda_cflags is not None:
        cuda_cflags += extra_cuda_cflags
"""
CPP_EXT = """
import sysconfig
def get_system_includes(cuda_home):
    includes = ["$cuda_home/include", tvm_ffi.libinfo.find_include_path(), jit_env.FLASHINFER_INCLUDE_DIR.resolve()]
    includes += [p.resolve() for p in jit_env.CUTLASS_INCLUDE_DIRS]
    return includes
def build_cuda_cflags(common_cflags, extra_cuda_cflags=None):
    cuda_cflags = []
    cc_env = os.environ.get("CC")
    if cc_env is not None:
        cuda_cflags += ["-ccbin", cc_env]
    cuda_cflags += ["$common_cflags", "--expt-relaxed-constexpr"]
    if cuda_version >= Version("12.8"):
        cuda_cflags += ["-static-global-template-stub=false"]
    return cuda_cflags
"""
CONTEXT = """
import os
import torch

class CompilationContext:
    COMMON_NVCC_FLAGS = ["-DENABLE_FP8"]

    def __init__(self):
        self.TARGET_CUDA_ARCHS = set()
        if "FLASHINFER_CUDA_ARCH_LIST" not in os.environ:
            for device in range(torch.cuda.device_count()):
                major, minor = torch.cuda.get_device_capability(device)
                if major >= 9:
                    minor = str(minor) + "a"
                self.TARGET_CUDA_ARCHS.add((int(major), str(minor)))
"""
COMM = """
from .core import gen_jit_spec, sm89_nvcc_flags
from . import env as jit_env

def gen_fused_module():
    nvcc_flags = current_compilation_context.get_nvcc_flags_list(supported_major_versions=[9, 10])
    return gen_jit_spec(
        "fused",
        [jit_env.FLASHINFER_CSRC_DIR / "fused.cu", jit_env.FLASHINFER_CSRC_DIR / "plain.cu"],
        extra_cuda_cflags=nvcc_flags + ["-DFUSED=1"],
    )

def gen_modern_module():
    sources = [jit_env.FLASHINFER_CSRC_DIR / "plain.cu", make_source("x")]
    return gen_jit_spec("modern", sources, extra_cuda_cflags=["-std=c++20", f"-DN={n}"],
                        extra_include_paths=[jit_env.FLASHINFER_DATA / "extra"])

def gen_generated_module(dtype):
    sources = []
    for name in names:
        sources.append(jit_env.FLASHINFER_GEN_SRC_DIR / name)
    return gen_jit_spec(f"generated_{dtype}", sources)

def gen_other_module():
    sources = [jit_env.FLASHINFER_CSRC_DIR / "plain.cu"]
    return gen_jit_spec("other", sources, extra_cuda_cflags=sm89_nvcc_flags + ["-DX"])

def helper():
    return 1
"""
HEADER = """
#pragma once
template <int N> __global__ void lamport(float* a) {
#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))
  a[threadIdx.x] = N;
#endif
}
"""
FUSED = """
#include "comm/fused.cuh"
#if FUSED != 1
#error "the module's own flag is missing"
#endif
template __global__ void lamport<1>(float*);
template __global__ void lamport<2>(float*);
__global__ void twoshot(float* a) { atomicAdd(a, 1.f); }
"""


@pytest.fixture
def package(tmp_path: Path) -> Package:
    root = tmp_path / "a site" / "flashinfer"  # a blank, as folders of people have
    files = {
        "jit/env.py": ENV,
        "jit/core.py": CORE,
        "jit/cpp_ext.py": CPP_EXT,
        "jit/comm.py": COMM,
        "compilation_context.py": CONTEXT,
        "data/include/comm/fused.cuh": HEADER,
        "data/csrc/fused.cu": FUSED,
        "data/csrc/plain.cu": "__global__ void plain(float* a) { a[0] = 1; }\n",
        "data/cutlass/include/cutlass.h": "",
        "data/extra/extra.h": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Package("flashinfer-python", "0.6.3", root.parent, ("flashinfer",))


@pytest.fixture
def companion(tmp_path: Path) -> Callable[[str], Package]:
    headers = tmp_path / "ffi" / "tvm_ffi" / "include"
    headers.mkdir(parents=True)

    def find(name: str) -> Package:
        assert name == "apache-tvm-ffi"
        return Package(name, "0.1.9", tmp_path / "ffi", ("tvm_ffi",))

    return find
