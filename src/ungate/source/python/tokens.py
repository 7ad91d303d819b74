"""Which words of a Python text may speak of the architecture."""

from __future__ import annotations

import re
from bisect import bisect_left

from ungate.source.matcher import Matcher, matcher

__all__ = ["holds", "keyed", "places", "speaks", "telling", "tells", "within", "words"]

_SPELLINGS = (
    r"capabilit|compute_cap|gencode|device_name|nvcc_flags|cuda_?arch|arch_list$|_archs$|^archs?$|^arch_(?:str|num|version|list)"
    r"|(?:cuda|gpu|device|sm|target|targets|current|compute|supported|nv)_archs?(?:$|_)"
    r"|^_*(?:[a-z]+_)*(?:cc|sm|cap|device|compute|props?|arch)_?major$|^majors?$|^major_versions?$|_majors$|_major_versions?$"
    r"|(?:^|_)ccs?$|(?:min|max|minimum|maximum)_(?:arch|major)$|^sm$|(?:device|gpu|cuda|current|target|torch|get|min|max)_sm$|sm_version|smver|major_minor"
    r"|(?:^|_)(?:is|has|use|uses|on|for|supports?|enable|with)_?sm_?[0-9]{2}|^_?[Ss][Mm]_?[0-9]{2,3}[afxAF]?$|compute_[0-9]{2}|^_*(?:is|on)_(?:hopper|blackwell|ampere)$|_at_least_[0-9]{2,3}$|arch_major|arch_minor"
    r"|^_?sm_?[0-9]{2,3}[afx]?_(?:supported|available|nvcc|flags)"
    r"|(?:^|_)sm_?[0-9]{2,3}[af]?_(?:[a-z]+_)*(?:values?|sizes?|dims?|shapes?)$"
)
"""Of one word: ``^`` and ``$`` are its ends."""
_TELLING = re.compile(_SPELLINGS, re.I)
_TEXT = bytes(byte if byte < 128 and (chr(byte).isalnum() or byte == 95) else 32 for byte in range(256))
_KEYS = (
    r"\"(?:7\.5|8\.[069]|9\.0|10\.[03]|12\.0)\":|'(?:7\.5|8\.[069]|9\.0|10\.[03]|12\.0)':"
    r"|\((?:8, [069]|9, 0|10, [03]|12, 0)\):"
    r"|\bcap(?:ability)?\[[01]\] *(?:[<>=!]=|[<>]|in |not in )"
    r"|(?:: str = |== |\bin \()\"(?:75|8[069]|90|10[03]|1[12]0|121)\"|\"(?:10[03]|1[12]0|121)\": [A-Za-z_]"
)


def _told() -> Matcher:
    """The telling words in a text."""
    return matcher(_SPELLINGS.replace("^", r"\b").replace("$", r"\b"), fold=True)


def _tabled() -> Matcher:
    return matcher(_KEYS)


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


def places(data: bytes) -> list[int]:
    """The offsets of telling words, of tables keyed by capabilities and of their numbers as texts, in order."""
    found = [match.start() for match in _told().finditer(data)]
    found.extend(match.start() for match in _tabled().finditer(data))
    return sorted(found)


def holds(marks: list[int], start: int, end: int) -> bool:
    """Whether one of the offsets (in order) lies in [start, end)."""
    index = bisect_left(marks, start)
    return index < len(marks) and marks[index] < end


def within(marks: list[int], start: int, end: int) -> list[int]:
    """The offsets (in order) that lie in [start, end)."""
    return marks[bisect_left(marks, start) : bisect_left(marks, end)]


def speaks(data: bytes) -> bool:
    """Whether a text holds a telling word, or is :func:`keyed`."""
    return keyed(data) or _told().search(data) is not None


def keyed(data: bytes) -> bool:
    """Whether a table is keyed by capabilities (``"9.0":``, ``(9, 0):``), or ``cap[0]`` or a number as text
    (``== "103"``) is compared."""
    return _tabled().search(data) is not None


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
        or (b"hopper" in low or b"blackwell" in low or b"ampere" in low or b"at_least_" in low)
        or b"device_name" in low
    )
