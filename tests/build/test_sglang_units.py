"""SGLang's ``load_jit`` in both of its shapes, small and real: what it compiles is worked out without importing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ungate.build import sass
from ungate.build.compile import compile_module, effective_target
from ungate.build.descriptions import Wanted, describe
from ungate.build.unit import Module
from ungate.errors import Refusal
from ungate.host import index, packages, toolchain
from ungate.host.packages import Package
from ungate.model import Target

UTILS = """
import os, pathlib
import torch
KERNEL_PATH = pathlib.Path(__file__).parent.resolve()

def make_cpp_args(*args):
    return ", ".join("true" if arg is True else str(arg) for arg in args)

def _arch_list() -> str:
    major, minor = torch.cuda.get_device_capability(torch.cuda.current_device())
    return f"{major}.{minor}"

def load_jit(*args, cuda_files=None, cuda_wrappers=None, extra_cuda_cflags=None, extra_include_paths=None):
    from tvm_ffi.cpp import load_inline
    sources = [f'#include "{(KERNEL_PATH / "csrc" / file).resolve()}"' for file in cuda_files]
    sources += [f"EXPORT({name}, ({kernel}));" for name, kernel in cuda_wrappers]
    existed = "ARCH_LIST" in os.environ
    if not existed:
        os.environ["ARCH_LIST"] = _arch_list()
    try:
        return load_inline("sgl_" + "_".join(str(arg) for arg in args), cuda_sources=sources,
                           extra_cuda_cflags=["-std=c++20"] + (extra_cuda_cflags or []),
                           extra_include_paths=[str(KERNEL_PATH / "include")] + (extra_include_paths or []))
    finally:
        if not existed:
            del os.environ["ARCH_LIST"]
"""
CACHE = """
import torch
from sglang.jit_kernel.utils import load_jit, make_cpp_args

def _jit_store_module(row_bytes: int, dtype: torch.dtype = torch.bfloat16):
    args = make_cpp_args(row_bytes, torch.cuda.get_device_capability()[0] >= 9)
    return load_jit("store", row_bytes, cuda_files=["store.cuh"], cuda_wrappers=[("store", f"Store<{args}>::run")])

def _jit_hopper_module():
    if torch.cuda.get_device_capability()[0] != 9:
        raise RuntimeError("store_tma needs SM90")
    return load_jit("tma", cuda_files=["store.cuh"], cuda_wrappers=[])

def helper():
    return 1
"""
FFI = """
import os
from pathlib import Path
from ..libinfo import find_include_path

def _decorate_with_tvm_ffi(source, functions):
    return "\\n".join(["#include <tvm/ffi/function.h>", source, *[f"X({n})" for n, _ in functions.items()]])

def _generate_ninja_build(name, extra_cflags, extra_cuda_cflags, extra_ldflags, extra_include_paths, sources,
                          embed_cubin=None, backend=None):
    major, minor = os.environ["ARCH_LIST"].split(".")
    flags = ["-Xcompiler", "-fPIC", "-O2", f"-gencode=arch=compute_{major}{minor},code=sm_{major}{minor}"]
    flags += [flag.strip() for flag in extra_cuda_cflags]
    for path in [find_include_path(), *extra_include_paths]:
        flags.append("-I{}".format(path.replace(":", "$:")))
    return "\\n".join(["ninja_required_version = 1.3", "cuda_cflags = {}".format(" ".join(flags)), ""])
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    files = {
        "sglang/__init__.py": "",
        "sglang/jit_kernel/__init__.py": "",
        "sglang/jit_kernel/utils.py": UTILS,
        "sglang/jit_kernel/kvcache.py": CACHE,
        "sglang/jit_kernel/csrc/store.cuh": "",
        "tvm_ffi/__init__.py": "",
        "tvm_ffi/cpp/__init__.py": "from .extension import load_inline",
        "tvm_ffi/cpp/extension.py": FFI,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def unit(site: Path, function: str, target: str = "sm_120", **arguments: str | int | bool) -> Module:
    sglang, ffi = Package("sglang", "0.5.9", site, ("sglang",)), Package("apache-tvm-ffi", "0.1.9", site, ("tvm_ffi",))
    build = f"sglang.jit_kernel.kvcache:{function}"
    return describe(Wanted(build, sglang, Target.parse(target), lambda _: ffi, lambda _: None, arguments))


def test_the_unit_is_the_one_that_the_package_would_write(site: Path) -> None:
    module = unit(site, "_jit_store_module", row_bytes=256)
    assert (module.name, module.file, module.suffix) == ("sgl_store_256", "sglang/jit_kernel/kvcache.py", "")
    (made,) = module.generated
    assert made.name == "cuda.cu"
    assert made.text.splitlines() == [
        "#include <tvm/ffi/function.h>",
        f'#include "{site}/sglang/jit_kernel/csrc/store.cuh"',
        "EXPORT(store, (Store<256, true>::run));",
    ]
    assert module.flags == ("-Xcompiler", "-fPIC", "-O2", "-std=c++20")
    assert module.includes == (site / "tvm_ffi/include", site / "sglang/jit_kernel/include")
    assert "Store<256, False>" in unit(site, "_jit_store_module", "sm_80", row_bytes=256).generated[0].text


@pytest.mark.parametrize(
    ("function", "words"),
    [
        pytest.param("_jit_store_module", "_jit_store_module needs a value for 'row_bytes'", id="no value"),
        pytest.param(
            "_jit_hopper_module", "itself refuses to build '_jit_hopper_module' for sm_120: store_tma", id="gate"
        ),
        pytest.param("nothing", "has no function 'nothing'", id="no such function"),
        pytest.param("helper", "could not be read from its files", id="loads nothing"),
    ],
)
def test_what_cannot_be_built_is_a_sentence(site: Path, function: str, words: str) -> None:
    with pytest.raises(Refusal, match=words) as caught:
        unit(site, function)
    assert function != "_jit_store_module" or "[build_arguments]" in caught.value.next_step


def real(requirement: str, build: str, target: str, **arguments: str | int | bool) -> Module:
    (sglang,) = (found for found in packages.below(index.fetch(requirement)) if found.name == "sglang")
    asked = packages.requirement(sglang, "apache-tvm-ffi") or "apache-tvm-ffi<0.2"
    ffi = packages.below(index.fetch(asked))
    (headers,) = (found for found in ffi if found.name == "apache-tvm-ffi")
    return describe(Wanted(build, sglang, Target.parse(target), lambda _: headers, lambda _: None, arguments))


@pytest.mark.wheels
@pytest.mark.parametrize(
    ("requirement", "build", "arguments", "suffixes"),
    [
        pytest.param(
            "sglang==0.5.9", "sglang.jit_kernel.kvcache:_jit_kvcache_module", {"row_bytes": 256},
            {"sm_90": "", "sm_120": "", "sm_121": ""}, id="through tvm_ffi",
        ),
        pytest.param(
            "sglang==0.5.23", "sglang.kernels.ops.attention.clamp_position:_jit_clamp_position_module",
            {"dtype": "torch.int64"}, {"sm_89": "", "sm_90": "a", "sm_120": "f", "sm_121": "a"}, id="own ninja file",
        ),
    ],
)  # fmt: skip
def test_real_releases_name_their_target(
    requirement: str,
    build: str,
    arguments: dict[str, str | int | bool],
    suffixes: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """sm_120f is what SGLang 0.5.23 builds with nvcc 12.9 or newer, and 0.5.9 the bare sm_120."""
    monkeypatch.setattr(toolchain, "tool", lambda name: toolchain.Tool(name, Path("/nvcc"), "13.0.88"))
    found = {target: real(requirement, build, target, **arguments).suffix for target in suffixes}
    assert found == suffixes


@pytest.mark.wheels
@pytest.mark.toolkit
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("function", "arguments", "kernels"),
    [
        pytest.param("attention.clamp_position:_jit_clamp_position_module", {"dtype": "torch.int64"}, 1, id="clamp"),
        pytest.param("elementwise.add3:_jit_add3_module", {}, 2, id="add3"),
        pytest.param("mamba.transfer_mamba:_jit_transfer_mamba_module", {}, None, id="transfer_mamba"),
    ],
)
def test_real_units_compile_for_sm_120a(
    function: str, arguments: dict[str, str | int | bool], kernels: int | None, tmp_path: Path
) -> None:
    """Budget: 15 s a unit on two cores, and the wheel of SGLang 0.5.23 (some 60 MB) once."""
    module = real("sglang==0.5.23", f"sglang.kernels.ops.{function}", "sm_120a", **arguments)
    target = effective_target(module, Target.parse("sm_120a"))
    (one,) = compile_module(module, target, tmp_path)
    assert one.cubin is not None, one.complaints
    (image,) = sass.read(one.cubin)
    assert image.arch == "sm_120a"
    assert image.counted(sass.Effect.HOLLOW) == 0
    assert len(image.kernels) == kernels if kernels else image.kernels
