"""The real SGLang through an overlay: its launcher imports from the edited copies and prints its help.

Budget: 2.7 GB on disk and 8 to 25 minutes on two cores (6 to 20 of them to install), in an
environment of its own. ``UNGATE_SGLANG_PYTHON`` names the interpreter of one that is there already. SGLang's launcher
imports much of what it could serve; what it needs for ``--help`` on a machine without a GPU is in ``_NEEDED``, and both
packages come without their dependencies, which would be gigabytes of CUDA libraries. Where pip finds the CPU build of
torch it takes that one. Its torchvision is replaced: the index has it for the CUDA build of torch only.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from tests.patch.site import gate

from ungate.host.environment import resolve
from ungate.host.packages import deviations, find
from ungate.model import Form, Target
from ungate.patch import create, open_series
from ungate.patch.proof import imports

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(3000)]

_ENGINE = ("flashinfer-python==0.6.3", "sglang==0.5.9")
_NEEDED = (
    *("torch==2.13.0", "triton", "transformers==4.57.1", "numpy", "psutil", "pyzmq", "orjson", "msgspec", "aiohttp"),
    *("fastapi", "uvicorn", "uvloop", "requests", "pydantic", "pybase64", "setproctitle", "packaging", "pillow"),
    *("einops", "tqdm", "IPython", "prometheus-client", "partial_json_parser", "python-multipart", "openai==2.6.1"),
    *("openai-harmony==0.0.4", "compressed-tensors", "interegular", "gguf", "sentencepiece", "tiktoken", "scipy"),
    *("nvidia-ml-py", "apache-tvm-ffi<0.2,>=0.1.5", "llguidance<0.8,>=0.7.11", "dill"),
)
_STAND_IN = '''"""Any part of torchvision, any name in it, and no work."""

import importlib.abc
import importlib.machinery
import sys
import types

__version__ = "0.0"


class _Names(type):
    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class _Part(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Names(name, (), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        wanted = name.startswith("torchvision.")
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if wanted else None

    def create_module(self, spec):
        return _Part(spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(_Finder())
'''
_OLD = (90, 100, 103, 107)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if ready := os.environ.get("UNGATE_SGLANG_PYTHON"):
        return Path(ready)
    folder = tmp_path_factory.mktemp("sglang") / "venv"
    venv.create(folder, with_pip=True, symlinks=True)
    found = folder / "bin/python"
    for arguments in (_NEEDED, ("--no-deps", *_ENGINE)):
        subprocess.run([found, "-m", "pip", "install", "-q", *arguments], check=True, timeout=1500)
    return found


def _help(python: Path, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [python, "-m", "sglang.launch_server", "--help"],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_the_launcher_runs_through_an_overlay(python: Path, tmp_path: Path) -> None:
    stand_in = tmp_path / "stand-in"
    (stand_in / "torchvision").mkdir(parents=True)
    (stand_in / "torchvision/__init__.py").write_text(_STAND_IN)
    environment = resolve(None, python)
    flashinfer, sglang = find(environment, "flashinfer-python"), find(environment, "sglang")
    expression = Form.PYTHON_EXPRESSION
    gates = (
        gate(sglang, "sglang/srt/server_args.py", "is_sm90_supported() or is_sm100_supported()", _OLD, expression,
             names=("is_sm90_supported", "is_sm100_supported")),
        gate(flashinfer, "flashinfer/jit/comm.py", "[9, 10]", _OLD, Form.INT_LIST),
    )  # fmt: skip
    packages = (flashinfer, sglang)
    before = [deviations(package) for package in packages]
    series = open_series("launcher", gates, Target(120), packages)
    base = {
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(stand_in),
        "HOME": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",  # the help lists some choices in the order of a set
    }
    overlay = create(series, packages, tmp_path / "arms", base=base)
    edited = {**base, **overlay.environment}
    said = _help(python, edited)
    assert any("--enable-flashinfer-allreduce-fusion" in line for line in said)
    assert said == _help(python, base)
    only = open_series("launcher", gates[:1], Target(120), packages)
    assert imports(only, python, edited, base, overlay.root) == ()
    lost = imports(only, python, base, base, overlay.root)
    assert len(lost) == 1 and "not from the edited copy" in lost[0].what
    assert "or is_sm120_supported())" in (overlay.root / "sglang/srt/server_args.py").read_text()
    assert [deviations(package) for package in packages] == before
    assert sys.executable != str(python)
