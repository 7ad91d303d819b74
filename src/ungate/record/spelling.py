"""Words that no known result and no recipe holds, and the ones that were probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from ungate.record.known import known, words

__all__ = ["misspelt"]

_ALIKE = 0.8  # difflib's ratio: one letter of five may be wrong
_SHORTEST = 5  # letters; shorter words are alike by chance
_ENDING = re.compile(r"(?:s|es|ed|ing)$")


def misspelt(text: str, more: Iterable[str] = ()) -> Mapping[str, str]:
    """The words of ``text`` that nothing here holds, each with the one that is most like it.

    ``more`` are texts beside the results' own, such as the recipes' names. A word that is like no other is left out:
    it may be the name of something of which nothing is known. Other endings of a word (kernels, fused) are no errors,
    and neither are the words in which results are told; what is meant is one by which they are found.
    """
    keys = frozenset().union(*map(words, (*(p for r in known() for p in (*r.features, *r.packages)), *more)))
    there = keys.union(*(words(f"{result.what} {result.hardware}") for result in known()))
    stems = {_ENDING.sub("", word) for word in there}
    meant = sorted(word for word in keys if word.isalpha() and len(word) >= _SHORTEST)
    found = {}
    for word in sorted(words(text) - there):
        stem = _ENDING.sub("", word)
        if len(word) < _SHORTEST or not word.isalpha() or stem in stems:
            continue
        near = difflib.get_close_matches(word, meant, 1, _ALIKE)
        if near and not near[0].startswith(stem) and not word.startswith(near[0]):
            found[word] = near[0]
    return found
