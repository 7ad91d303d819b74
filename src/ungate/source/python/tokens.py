"""Which words of a Python text may speak of the architecture."""

from __future__ import annotations

import re

__all__ = ["speaks", "telling", "words"]

_TELLING = re.compile(
    r"capabilit|compute_cap|(?:^|_)(?:major|minor)$|(?:^|_)sm_?[0-9]{2}|(?:^|_)sms?$|(?:^|_)archs?(?:_|$)"
    r"|(?:^|_)ccs?$|blackwell|hopper|(?:^|_)ampere|compute_[0-9]|device_sm|device_name|major_version|smver"
    r"|(?:^|_)sm_(?:version|major|num|ver)|^[ahb]?[12]00$|cuda_archs|gencode",
    re.I,
)
_TEXT = bytes(byte if byte < 128 and (chr(byte).isalnum() or byte == 95) else 32 for byte in range(256))
_KNOWN: dict[bytes, bool] = {}
_SPELLED: dict[str, bool] = {}


def words(data: bytes) -> list[bytes]:
    """The identifiers and numbers in a text, in order."""
    return data.translate(_TEXT).split()


def telling(name: str) -> bool:
    """Whether an identifier is spelled like something about the architecture."""
    answer = _SPELLED.get(name)
    if answer is None:
        answer = _SPELLED[name] = _TELLING.search(name) is not None
    return answer


def speaks(data: bytes, also: frozenset[bytes] | set[bytes] = frozenset()) -> bool:
    """Whether a text holds a telling word or one of the names in ``also``."""
    found = set(words(data))
    if also and not found.isdisjoint(also):
        return True
    for word in found:
        answer = _KNOWN.get(word)
        if answer is None:
            answer = _KNOWN[word] = _TELLING.search(word.decode("ascii")) is not None
        if answer:
            return True
    return False
