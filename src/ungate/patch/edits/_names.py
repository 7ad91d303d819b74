"""How text names an architecture ("sm_90a", "9.0", "compute_100f"), and the same text for another one."""

from __future__ import annotations

import re

from ungate.model import KNOWN_ARCHS

__all__ = ["named", "renamed"]

_NAME = re.compile(r"(?P<lead>(?:sm|compute|SM|Sm|CUDA)_?)(?P<digits>\d{2,3})(?P<suffix>[af]?)(?!\d)")
_DOTTED = re.compile(r"(?<![\d.])(?P<major>\d{1,2})\.(?P<minor>\d)(?P<suffix>[af]?)(?![\d.])")
_BARE = re.compile(r"(?P<digits>\d{2,3})(?P<suffix>[af]?)")


def named(text: str) -> frozenset[int]:
    """The known archs that the text names; empty where it names none."""
    found = {int(match["digits"]) for match in _NAME.finditer(text)}
    found |= {int(match["major"]) * 10 + int(match["minor"]) for match in _DOTTED.finditer(text)}
    if bare := _BARE.fullmatch(text.strip("\"' ")):
        found.add(int(bare["digits"]))
    return frozenset(found & set(KNOWN_ARCHS))


def renamed(text: str, arch: int) -> str:
    """The text with every arch in it replaced by ``arch``, prefix and suffix kept.

    The family suffix becomes the architecture's own: ``sm_120f`` would let sm_121 in as well.
    """
    text = _NAME.sub(lambda m: f"{m['lead']}{arch}{_own(m['suffix'])}", text)
    text = _DOTTED.sub(lambda m: f"{arch // 10}.{arch % 10}{_own(m['suffix'])}", text)
    quote = text[:1] if text[:1] in "\"'" else ""
    if bare := _BARE.fullmatch(text.strip("\"' ")):
        return f"{quote}{arch}{_own(bare['suffix'])}{quote}"
    return text


def _own(suffix: str) -> str:
    return "a" if suffix else ""
