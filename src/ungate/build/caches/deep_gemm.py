"""DeepGEMM: ``cache/kernel.NAME.HASH`` below ``$DG_JIT_CACHE_DIR`` or ``~/.deep_gemm``.

SGLang sets the variable from ``SGLANG_DG_CACHE_DIR``, by default ``~/.cache/deep_gemm``. The hash covers the code, the
flags, the compiler and DeepGEMM's own headers, not those of CUTLASS (csrc/jit/compiler.hpp and include_parser.hpp).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.build.caches import Cache, Found, home

__all__ = ["CACHE"]


def _place(variables: Mapping[str, str]) -> Path:
    chosen = variables.get("DG_JIT_CACHE_DIR") or variables.get("SGLANG_DG_CACHE_DIR")
    if chosen:
        return Path(chosen)
    sglang, own = home(variables) / ".cache" / "deep_gemm", home(variables) / ".deep_gemm"
    return sglang if sglang.is_dir() and not own.is_dir() else own


def _entries(root: Path) -> Iterator[Found]:
    for folder in sorted((root / "cache").glob("kernel.*")):
        if folder.is_symlink() or not folder.is_dir():
            continue
        outputs = tuple(sorted(folder.glob("*.cubin")))
        whole = bool(outputs) and any(folder.glob("*.cu"))
        yield Found(
            name=folder.name.split(".")[1],
            path=folder,
            owner="deep-gemm",
            outputs=outputs,
            addressed=True,
            stale="" if whole else "it lacks its source or its cubin, which DeepGEMM refuses to start with",
            note="headers of CUTLASS are not part of its hash",
        )


CACHE = Cache("deep_gemm", _place, _entries, layout="its layout is known from its source alone")
