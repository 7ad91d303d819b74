"""The package from the source tree, and a kernel cache that outlives no test run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
if importlib.util.find_spec("ungate_allreduce") is None:
    sys.path.insert(0, str(SOURCE))


@pytest.fixture(scope="session", autouse=True)
def kernel_cache() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("UNGATE_ALLREDUCE_CACHE")
        os.environ["UNGATE_ALLREDUCE_CACHE"] = folder
        yield Path(folder)
        if before is None:
            del os.environ["UNGATE_ALLREDUCE_CACHE"]
        else:
            os.environ["UNGATE_ALLREDUCE_CACHE"] = before


@pytest.fixture(scope="session")
def nvrtc() -> str:
    """Version of the compiler; skips where there is none."""
    from ungate_allreduce.compile import Nvrtc
    from ungate_allreduce.errors import CompileError

    try:
        return Nvrtc().version
    except CompileError as error:
        pytest.skip(f"needs NVRTC (pip install nvidia-cuda-nvrtc): {error}")


def _tool(name: str) -> str | None:
    found = shutil.which(name)
    if found:
        return found
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec else ():
        path = Path(root) / "cu13" / "bin" / name
        if path.is_file():
            return str(path)
    return None


@pytest.fixture(scope="session")
def disassemble(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], str]:
    """SASS of a cubin; skips where nvdisasm is missing."""
    tool = _tool("nvdisasm")
    if tool is None:
        pytest.skip("needs nvdisasm (pip install nvidia-cuda-nvdisasm)")
    folder = tmp_path_factory.mktemp("sass")

    def run(cubin: bytes) -> str:
        path = folder / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([tool, "-c", str(path)], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    return run
