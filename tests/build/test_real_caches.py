"""Caches that PyTorch and FlashInfer really made, on the CPU and for a GPU that is not here.

They need an interpreter with PyTorch (the CPU build is enough) and ninja: the one that runs the tests where it has
PyTorch, else the one that ``UNGATE_TEST_TORCH_PYTHON`` names. Triton is left out where that has none, and the module of
FlashInfer needs what FlashInfer imports. Budget: 3 minutes on 2 cores, and 7 more for FlashInfer's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ungate.build import freshness, linking, purge, sass
from ungate.build.freshness import Entry, State
from ungate.host import index
from ungate.host.environment import Environment, resolve

PYTHON = os.environ.get("UNGATE_TEST_TORCH_PYTHON", "") or (sys.executable if find_spec("torch") else "")
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not PYTHON, reason="no PyTorch here, and UNGATE_TEST_TORCH_PYTHON names none"),
]

EXTENSION = """
import sys
from torch.utils.cpp_extension import load
print(load("probe", [sys.argv[1] + "/probe.cpp"], extra_include_paths=[sys.argv[1]]).value())
"""
PROBE = """
#include <torch/extension.h>
#include "probe.h"
PYBIND11_MODULE(probe, m) { m.def("value", [] { return VALUE; }); }
"""
COMPILED = """
import torch
def f(x):
    return torch.nn.functional.gelu(x) * 2 + x.sum()
print(torch.compile(f)(torch.ones(64)).shape)
"""
KERNEL = """
import sys
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
@triton.jit
def add_one(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)
signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "B": "constexpr"}
for arch in (90, 120):
    triton.compile(ASTSource(add_one, signature, {"B": 128}), target=GPUTarget("cuda", arch, 32))
print(triton.__version__)
"""
MODULE = "from flashinfer.jit.comm import gen_vllm_comm_module; gen_vllm_comm_module().build(verbose=True)"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNGATE_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def env() -> Environment:
    return resolve(None, Path(PYTHON))


def run(code: str, *arguments: str, **variables: str) -> str:
    folder = str(Path(PYTHON).parent)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "MAX_JOBS": "1", **variables}
    ran = subprocess.run(
        [PYTHON, "-c", code, *arguments], env=environment, timeout=1500, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    return ran.stdout


@pytest.mark.torch
def test_a_torch_extension(tmp_path: Path, env: Environment) -> None:
    source, cache = tmp_path / "source", tmp_path / "cache"
    source.mkdir()
    (source / "probe.h").write_text("#define VALUE 1\n")
    (source / "probe.cpp").write_text(PROBE)
    variables = {"TORCH_EXTENSIONS_DIR": str(cache)}

    def survey() -> Entry:
        (entry,) = freshness.survey(env, variables, ["torch_extensions"])
        return entry

    assert run(EXTENSION, str(source), **variables).split()[-1] == "1"
    first = survey()
    assert (first.name, first.owner, first.state) == ("probe", "torch", State.UNKNOWN)
    assert survey().state is State.FRESH
    (source / "probe.h").write_text("#define VALUE 2\n")
    stale = survey()
    assert (stale.state, stale.reason.split()[0]) == (State.STALE, "probe.h")
    doomed = purge.chosen([stale], ["torch"])
    assert purge.remove(doomed) > 0
    assert freshness.survey(env, variables, ["torch_extensions"]) == ()
    assert run(EXTENSION, str(source), **variables).split()[-1] == "2"


@pytest.mark.torch
def test_inductor(tmp_path: Path, env: Environment) -> None:
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    assert "torch.Size([64])" in run(COMPILED, **variables)
    found = freshness.survey(env, variables, ["inductor"])
    assert "fxgraph" in {entry.name for entry in found}
    assert {entry.state for entry in found} == {State.FRESH}
    assert all(entry.size > 0 for entry in found)


@pytest.mark.torch
def test_triton(tmp_path: Path, env: Environment) -> None:
    if "None" in run("from importlib.util import find_spec; print(find_spec('triton'))"):
        pytest.skip("this PyTorch comes without Triton")
    code = tmp_path / "kernel.py"  # Triton reads the source of a kernel from its file
    code.write_text(KERNEL)
    variables = {"TRITON_CACHE_DIR": str(tmp_path / "cache")}
    version = run(f"import runpy; runpy.run_path({str(code)!r}, run_name='__main__')", **variables).split()[-1]
    found = freshness.survey(env, variables, ["triton"])
    kernels = {entry.arch: entry for entry in found if entry.name == "add_one"}
    assert kernels.keys() == {"sm_90", "sm_120"}
    assert {entry.version for entry in kernels.values()} == {version}
    assert {entry.state for entry in found} == {State.FRESH}


@pytest.mark.slow
@pytest.mark.toolkit
@pytest.mark.wheels
def test_a_flashinfer_module(tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(index.fetch("flashinfer-python==0.6.3"), site)
    variables = {
        **linking.variables(os.environ, tmp_path),
        "FLASHINFER_WORKSPACE_BASE": str(tmp_path / "home"),
        "FLASHINFER_CUDA_ARCH_LIST": "12.0a",
        "PYTHONPATH": str(site),
    }
    run(MODULE, **variables)
    env = Environment((site,), None)

    def survey() -> Entry:
        (entry,) = freshness.survey(env, variables, ["flashinfer"])
        return entry

    first = survey()
    assert (first.name, first.version, first.arch, first.state) == ("vllm_comm", "0.6.3", "sm_120a", State.UNKNOWN)
    assert survey().state is State.FRESH
    (image,) = sass.read(first.path / "vllm_comm.so", "sm_120a")
    assert len(image.kernels) > 10
    assert image.counted(sass.Effect.HOLLOW) == 0
    header = site / "flashinfer/data/include/flashinfer/comm/vllm_custom_all_reduce.cuh"
    before = header.stat()
    header.write_text(header.read_text() + "// opened\n")
    os.utime(header, ns=(before.st_atime_ns, before.st_mtime_ns))  # ninja, which goes by dates, would not build again
    stale = survey()
    assert stale.state is State.STALE
    assert stale.reason.startswith("vllm_custom_all_reduce.cuh has another content")
    assert purge.remove(purge.chosen([stale], ["flashinfer-python"])) == stale.size
