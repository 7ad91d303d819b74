"""The architectures that compiler flags name (``-gencode arch=compute_90a,code=sm_90a``), apart from the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ungate.model import Target

__all__ = ["apart", "note"]

_ARCH = re.compile(r"arch=compute_(\d+)([af]?)")
_BARE = re.compile(r"-arch=(?:sm|compute)_(\d+)([af]?)")
_LEADS = frozenset({"-gencode", "--generate-code"})


def apart(flags: Sequence[str]) -> tuple[tuple[str, ...], tuple[Target, ...]]:
    """The flags without those that choose architectures, and the architectures in order."""
    kept, named, follows = list[str](), set[Target](), False
    for flag in flags:
        pairs = _ARCH.findall(flag) or _BARE.findall(flag)
        named |= {Target(int(number), suffix) for number, suffix in pairs}
        if not (follows or pairs or flag in _LEADS):
            kept.append(flag)
        follows = flag in _LEADS
    return tuple(kept), tuple(sorted(named))


def note(named: Sequence[Target], target: Target) -> str:
    """That a package's own flags build for other architectures alone; empty where they do not."""
    if not named or target.number in {one.number for one in named}:
        return ""
    return f"its own flags build for {' '.join(map(str, named))} alone: on {target} nothing of it would be there"
