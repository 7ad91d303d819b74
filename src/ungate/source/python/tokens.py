"""Which words of a Python text may speak of the architecture."""

from __future__ import annotations

import functools
import re

__all__ = ["Wording", "keyed", "speaks", "telling", "tells", "words"]

_TELLING = re.compile(
    r"capabilit|compute_cap|gencode|device_name|nvcc_flags|cuda_?arch|arch_list$|^archs?$|^arch_(?:str|num|version|list)"
    r"|(?:cuda|gpu|device|sm|target|targets|current|compute|supported|nv)_archs?(?:$|_)"
    r"|^_*(?:[a-z]+_)*(?:cc|sm|cap|device|compute|props?|arch)_?major$|^majors?$|^major_versions?$|_majors$|_major_versions?$"
    r"|(?:^|_)cc$|^sm$|(?:device|gpu|cuda|current|target|torch|get|min|max)_sm$|sm_version|smver|major_minor"
    r"|(?:^|_)(?:is|has|use|uses|on|for|supports?|enable|with)_?sm_?[0-9]{2}|^_?[Ss][Mm]_?[0-9]{2,3}[afxAF]?$|compute_[0-9]{2}"
    r"|^_?sm_?[0-9]{2,3}[afx]?_(?:supported|available|nvcc|flags)"
    r"|(?:^|_)sm_?[0-9]{2,3}[af]?_(?:[a-z]+_)*(?:values?|sizes?|dims?|shapes?)$",
    re.I,
)
_NOISE = re.compile(rb'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|#[^\n]*|\bcute\.arch\b')
_TEXT = bytes(byte if byte < 128 and (chr(byte).isalnum() or byte == 95) else 32 for byte in range(256))
_KEYS = tuple(
    f"{left}{number}{right}".encode()
    for number in ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0")
    for left, right in (('"', '":'), ("'", "':"))
) + tuple(f"({number}):".encode() for number in ("8, 0", "8, 6", "8, 9", "9, 0", "10, 0", "10, 3", "12, 0"))
_MAJORS = frozenset(b"7 8 9 10 12".split())
_YES: set[bytes] = set()
_NO: set[bytes] = set()
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


def speaks(data: bytes, also: frozenset[bytes] | set[bytes] = frozenset(), *, code: bool = False) -> bool:
    """Whether a text holds a telling word or one of the names in ``also``; with ``code``, outside comments and docs."""
    return Wording(data).speaks(also, code=code)


def keyed(data: bytes) -> bool:
    """Whether a table is keyed by versions of the capability (``"9.0":``, ``(9, 0):``)."""
    return any(key in data for key in _KEYS)


class Wording:
    """The words of a text, split once however often they are asked about."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.words = frozenset(words(data))

    @functools.cached_property
    def _keyed(self) -> bool:
        return not self.words.isdisjoint(_MAJORS) and keyed(self.data)

    @functools.cached_property
    def _tells(self) -> bool:
        return tells(self.words)

    @functools.cached_property
    def _code(self) -> frozenset[bytes]:
        """The words outside comments and docs."""
        return frozenset(words(_NOISE.sub(b" ", self.data)))

    @functools.cached_property
    def _code_tells(self) -> bool:
        return tells(self._code)

    def speaks(self, also: frozenset[bytes] | set[bytes] = frozenset(), *, code: bool = False) -> bool:
        """As the function of that name."""
        if self._keyed:
            return True
        if not (self._tells or not self.words.isdisjoint(also)):
            return False
        return not code or self._code_tells or not self._code.isdisjoint(also)


def tells(found: frozenset[bytes] | set[bytes]) -> bool:
    """Whether one of these words is telling; each word is looked at once a process."""
    if not found.isdisjoint(_YES):
        return True
    answer = False
    for word in found - _NO:
        if _may_tell(word.lower()) and _TELLING.search(word.decode("ascii")) is not None:
            _YES.add(word)
            answer = True
        else:
            _NO.add(word)
    return answer


def _may_tell(low: bytes) -> bool:
    """Whether a lower-case word holds what every alternative of the pattern needs: plain searches are far cheaper."""
    return (
        (b"sm" in low or b"arch" in low or b"cc" in low or b"major" in low or b"capabilit" in low)
        or (b"compute_" in low or b"gencode" in low)
        or b"device_name" in low
    )
