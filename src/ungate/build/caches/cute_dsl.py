"""CuTe DSL (nvidia-cutlass-dsl): files in ``$CUTE_DSL_CACHE_DIR``.

Without it they lie in ``USER/cutlass_python_cache`` in the temporary folder. A file is named by a hash of the
generated code ("CuTe DSL", chapter "JIT Caching").
"""

from __future__ import annotations

import getpass
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.build.caches import Cache, Found

__all__ = ["CACHE"]


def _place(variables: Mapping[str, str]) -> Path:
    if chosen := variables.get("CUTE_DSL_CACHE_DIR"):
        return Path(chosen)
    return Path(variables.get("TMPDIR") or tempfile.gettempdir()) / getpass.getuser() / "cutlass_python_cache"


def _entries(root: Path) -> Iterator[Found]:
    for file in sorted(root.iterdir()):
        if file.is_file() and not file.is_symlink() and not file.name.endswith(".lock"):
            yield Found(file.name, file, "nvidia-cutlass-dsl", outputs=(file,), addressed=True)


CACHE = Cache("cute_dsl", _place, _entries, layout="its layout is known from its documentation alone")
