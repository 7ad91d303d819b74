"""SGLang's compiler: ``torch_compile_cache/HASH`` below ``$SGLANG_CACHE_DIR`` or ``~/.cache/sglang``.

(sglang/srt/compilation/backend.py.) As in vLLM, whose compiler it came from, operators of other packages enter the
hash by their name only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.build.caches import Cache, Found, home
from ungate.build.peer import verdicts

__all__ = ["CACHE"]


def _place(variables: Mapping[str, str]) -> Path:
    chosen = variables.get("SGLANG_CACHE_DIR")
    return Path(chosen) if chosen else home(variables) / ".cache" / "sglang"


def _entries(root: Path) -> Iterator[Found]:
    yield from verdicts(root, "sglang")
    for folder in sorted((root / "torch_compile_cache").glob("*")):
        if folder.is_dir() and not folder.is_symlink():
            yield Found(
                name=folder.name,
                path=folder,
                owner="sglang",
                addressed=True,
                note="kernels of other packages enter its hash by their name only",
            )


CACHE = Cache("sglang", _place, _entries, layout="its layout is known from its source alone")
