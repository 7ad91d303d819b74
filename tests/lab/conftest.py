"""An installed lab, and copies of it with some of the gates opened by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ungate.lab.install import Lab, install

OpenGates = Callable[..., Lab]

ENGINE = ("labengine/communicator.py", "(_is_sm90_supported or _is_sm100_supported)", "True")
JIT = ("labkernels/jit/comm.py", "[9, 10]", "[9, 10, 12]")
HEADER = (
    "labkernels/data/include/labkernels/comm/allreduce_fusion.h",
    "__CUDA_ARCH__ < 1200",
    "__CUDA_ARCH__ < 1300",
)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return install(tmp_path_factory.mktemp("lab") / "site")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="session")
def open_gates(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> OpenGates:
    """``open_gates(ENGINE, JIT)``: a copy of the lab with those texts replaced."""

    def opened(*edits: tuple[str, str, str]) -> Lab:
        site = tmp_path_factory.mktemp("opened") / "site"
        shutil.copytree(lab.site, site, ignore=shutil.ignore_patterns("__pycache__"))
        for file, old, new in edits:
            text = (site / file).read_text()
            assert old in text, f"{file} has no {old}"
            (site / file).write_text(text.replace(old, new))
        return Lab(site, lab.python)

    return opened
