"""vLLM's compiler: ``torch_compile_cache/HASH`` below ``$VLLM_CACHE_ROOT`` or ``~/.cache/vllm`` (vllm/envs.py).

The hash covers the configuration, the version and the code of the traced model files (vllm/compilation/backends.py),
not the kernels of other packages behind custom operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.build.caches import Cache, Found, home
from ungate.build.peer import verdicts

__all__ = ["CACHE"]


def _place(variables: Mapping[str, str]) -> Path:
    if chosen := variables.get("VLLM_CACHE_ROOT"):
        return Path(chosen)
    base = variables.get("XDG_CACHE_HOME")
    return (Path(base) if base else home(variables) / ".cache") / "vllm"


def _entries(root: Path) -> Iterator[Found]:
    yield from verdicts(root, "vllm")
    for folder in sorted((root / "torch_compile_cache").glob("*")):
        if folder.is_dir() and not folder.is_symlink():
            yield Found(
                name=folder.name,
                path=folder,
                owner="vllm",
                addressed=True,
                note="kernels of other packages enter its hash by their name only",
            )


CACHE = Cache("vllm", _place, _entries, layout="its layout is known from its source alone")
