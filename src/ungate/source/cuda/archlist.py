"""Architectures named in build flags and lists: ``compute_90a``, ``sm_120f``, ``9.0a``, ``90-real``, ``8.0+PTX``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.model import KNOWN_ARCHS

__all__ = ["archs_named", "expand"]

_FLAG = re.compile(r"(?:compute_|sm_)(\d{2,3})([af]?)\b")
_ITEM = re.compile(r"(?<![\w.])(?:(\d{1,2})\.(\d)|(\d{2,3}))([af]?)(?:-(?:real|virtual))?(\+PTX)?(?![\w.])")


def expand(number: int, suffix: str, ptx: bool = False) -> frozenset[int]:
    """The architectures that code for a target runs on.

    Code for ``90a`` runs on 90 alone, for ``100f`` on its family (100 and 103, 120 and 121). A binary for a plain
    target counts for that target, as a build list means it; PTX can be compiled for every later one.
    """
    if ptx:
        return frozenset(arch for arch in KNOWN_ARCHS if arch >= number)
    if suffix == "f":
        family = {100: (100, 103), 120: (120, 121)}.get(number, (number,))
        return frozenset(family)
    return frozenset({number}) & frozenset(KNOWN_ARCHS)


def archs_named(text: str, *, bare: bool = False) -> frozenset[int]:
    """Every architecture named by a flag; with ``bare`` also by list items without prefix (``9.0a;100``)."""
    return frozenset().union(*_found(text, bare))


def _found(text: str, bare: bool) -> Iterator[frozenset[int]]:
    for flag in _FLAG.finditer(text):
        yield expand(int(flag.group(1)), flag.group(2))
    if bare:
        for item in _ITEM.finditer(text):
            number = int(item.group(1)) * 10 + int(item.group(2)) if item.group(1) else int(item.group(3))
            if number in KNOWN_ARCHS:
                yield expand(number, item.group(4), item.group(5) is not None)
