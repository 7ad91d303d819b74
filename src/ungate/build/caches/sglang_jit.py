"""SGLang's own JIT: ``TARGET/MODULE/build-KEY/deps-KEY`` below ``$SGLANG_JIT_CACHE_DIR`` or ``~/.cache/sglang/jit``.

(sglang/kernels/jit/utils/compile/cache.py, 0.5.23.) The keys cover flags, compiler and the content of every header, so
that a leaf whose files have changed is passed over. Older releases compile through apache-tvm-ffi. ``SGLANG_CACHE_DIR``
does not move it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.build.caches import Cache, Found, home

__all__ = ["CACHE"]


def _place(variables: Mapping[str, str]) -> Path:
    chosen = variables.get("SGLANG_JIT_CACHE_DIR")
    return Path(chosen) if chosen else home(variables) / ".cache" / "sglang" / "jit"


def _entries(root: Path) -> Iterator[Found]:
    for scope in sorted(root.glob("*/*/build-*")):
        if scope.is_symlink() or not scope.is_dir():
            continue
        lock = scope / ".lock"
        for leaf in sorted(path for path in scope.iterdir() if path.is_dir() and not path.is_symlink()):
            begun = leaf.name.startswith(".staging-")
            if not begun and not leaf.name.startswith("deps-"):
                continue
            yield Found(
                name=scope.parent.name,
                path=leaf,
                owner="sglang",
                arch=_arch(scope.parent.parent.name),
                outputs=tuple(sorted(leaf.glob("*.so"))),
                addressed=not begun,
                locks=(lock,) if lock.exists() else (),
                stale="it is of a build that did not end, which is never loaded" if begun else "",
            )


def _arch(tag: str) -> str:
    """``sm120f`` as ``sm_120f``; a tag of another vendor's GPU as it is."""
    return f"sm_{tag[2:]}" if tag[2:4].isdigit() and tag.startswith("sm") else tag


CACHE = Cache("sglang_jit", _place, _entries, layout="its layout is known from its source alone")
