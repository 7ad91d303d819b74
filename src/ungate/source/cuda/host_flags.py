"""Flags of host C++ that hold the answer of a comparison: ``bool is_sm90 = props->major == 9;``, and their tests.

A flag that the architecture alone decides is followed from its definition to the end of the block that it is defined
in: one that other things have a say in may be off for their sake, and its test says little about the architecture.
A test is what stands under an ``if``, in a check, before ``?`` or is joined with something; a flag that is only
handed on is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from ungate.source.condition import All, Condition, Either, Free, Not, has_free, speaks
from ungate.source.cuda.comments import blank
from ungate.source.cuda.host import Comparison, extent, masked, read_condition

__all__ = ["flag_tests"]

_DEFINED = re.compile(r"\b(?:bool|auto)\s+(?:const\s+)?(\w+)\s*=\s*$")
_TESTED = re.compile(r"\b(?:if\s*(?:constexpr\s*)?|\w*(?:CHECK|ASSERT|assert|ENFORCE)\w*\s*)\(\s*$")
_FARTHEST = 30_000
"""Characters from a definition that a block is followed."""


def flag_tests(text: str, found: Sequence[Comparison], skip: Callable[[int], int]) -> Iterator[Comparison]:
    """The tests of flags that are defined by one of the comparisons ``found``, outside of those."""
    defined = [
        (flag.group(1), each)
        for each in found
        if (flag := _DEFINED.search(text, max(0, each.start - 80), each.start)) is not None
        and text[each.end : each.end + 20].lstrip().startswith(";")
        and not has_free(each.condition)
    ]
    if not defined:
        return
    code = blank(text)
    mask = masked(code)
    seen = {each.start for each in found}
    for name, by in defined:
        for use in re.finditer(rf"(?<![\w.>:]){name}\b(?!\s*(?:=(?!=)|\())", code[: _block(code, by.end)]):
            if use.start() < by.end or skip(use.start()):
                continue
            start, end = extent(mask, use.start(), use.end())
            if start in seen or any(each.start <= start < each.end for each in found):
                continue
            if not _is_tested(code, start, end):
                continue
            flags = {other: each.condition for other, each in defined if each.end <= start}
            condition = _told(read_condition(code, mask, start, end), flags)
            if speaks(condition):
                seen.add(start)
                words = re.findall(r"\w+", code[start:end])
                names = tuple(dict.fromkeys(word for word in words if word in flags))
                yield Comparison(condition, start, end, start, end, names)


def _block(code: str, start: int) -> int:
    """Where the block around an offset ends."""
    depth, limit = 1, min(len(code), start + _FARTHEST)
    for brace in re.finditer(r"[{}]", code[start:limit]):
        depth += 1 if brace.group() == "{" else -1
        if not depth:
            return start + brace.start()
    return limit


def _is_tested(code: str, start: int, end: int) -> bool:
    return (
        any(operator in code[start:end] for operator in ("&&", "||", "!"))
        or code[end : end + 20].lstrip().startswith("?")
        or _TESTED.search(code, max(0, start - 60), start) is not None
    )


def _told(condition: Condition, flags: dict[str, Condition]) -> Condition:
    """A condition with the flags in it replaced by what they hold."""
    match condition:
        case Free(text=text):
            return flags.get(text, condition)
        case Not(of=inner):
            return Not(_told(inner, flags))
        case All(of=terms):
            return All(tuple(_told(term, flags) for term in terms))
        case Either(of=terms):
            return Either(tuple(_told(term, flags) for term in terms))
        case _:
            return condition
