"""Make an environment in which SGLang serves a text model on the CPU: no kernels, a stand-in for torchvision.

    python tests/launch/sglang_cpu/install.py FOLDER VLLM_FOLDER

SGLang's own dependencies are CUDA builds, so it is installed without them and takes torch and transformers from the
environment that ``vllm_cpu/install.py`` made. In FOLDER lie ``venv/`` and ``stub/``, to be put on PYTHONPATH.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

__all__ = ["install"]

PINS = ("sglang==0.5.23", "orjson", "ipython", "traitlets", "gguf", "soundfile")
BENCHMARK = ("datasets",)  # what its load generator imports, with what that needs

STUB = '''
"""Stands in for torchvision, whose wheels do not load beside the CPU build of torch; text models use none of it."""

import enum
import sys
import types

__version__ = "0.0"


class InterpolationMode(enum.Enum):
    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


class Nothing:
    def __init__(self, *arguments, **named):
        raise RuntimeError("torchvision is a stand-in here")


def anything(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Nothing


for part in ("transforms", "transforms.functional", "transforms.v2", "transforms.v2.functional", "io", "ops"):
    module = types.ModuleType(f"torchvision.{part}")
    module.InterpolationMode, module.__path__, module.__getattr__ = InterpolationMode, [], anything
    sys.modules[module.__name__] = module
    parent, _, leaf = module.__name__.rpartition(".")
    setattr(sys.modules[parent], leaf, module)
'''


def install(folder: Path, vllm: Path) -> None:
    """Fill ``folder`` where it is not complete."""
    done = folder / "complete"
    if done.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    venv.create(folder / "venv", with_pip=True, clear=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-deps", *PINS], check=True, timeout=900)
    (site,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    (theirs,) = (vllm.resolve() / "venv" / "lib").glob("python3*/site-packages")
    (site / "vllm.pth").write_text(f"{theirs}\n")
    subprocess.run([str(python), "-m", "pip", "install", "-q", *BENCHMARK], check=True, timeout=900)
    (folder / "stub" / "torchvision").mkdir(parents=True, exist_ok=True)
    (folder / "stub" / "torchvision" / "__init__.py").write_text(STUB.lstrip())
    done.touch()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    install(Path(sys.argv[1]), Path(sys.argv[2]))
