"""Where sources lie and where objects go."""

from __future__ import annotations

import os
from pathlib import Path

from labkernels import __version__

__all__ = ["LABKERNELS_CSRC_DIR", "LABKERNELS_DATA", "LABKERNELS_INCLUDE_DIR", "arch_dir"]

LABKERNELS_DATA = Path(__file__).parent.parent / "data"
LABKERNELS_CSRC_DIR = LABKERNELS_DATA / "csrc"
LABKERNELS_INCLUDE_DIR = LABKERNELS_DATA / "include"


def arch_dir(arch: tuple[int, str]) -> Path:
    """``<cache>/<version>/<arch>``; the cache is ``LAB_KERNELS_CACHE``, else ``~/.cache/labkernels`` (XDG)."""
    chosen = os.environ.get("LAB_KERNELS_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    root = Path(chosen) if chosen else Path(shared) / "labkernels"
    return root.expanduser().absolute() / __version__ / f"{arch[0]}{arch[1]}"
