"""Host C++ that decides by the architecture it runs on: ``if (sm >= 90)``, ternaries, arguments, type tags.

The expression around a comparison is read as far as it is joined by ``&&``, ``||``, ``!`` and parentheses; operands
that do not speak of the architecture are free.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ungate.model import KNOWN_ARCHS
from ungate.source.condition import All, Condition, Either, Free, Not, Unknown, evaluate, speaks
from ungate.source.cuda.comments import blank
from ungate.source.cuda.host_terms import COMPARE, reads_capability, term
from ungate.source.matcher import matcher

__all__ = ["Comparison", "comparisons", "extent", "masked", "read_condition"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A boolean host expression about the architecture: bytes [start, end), first and last byte that speaks of it."""

    condition: Condition
    start: int
    end: int
    first: int
    last: int
    names: tuple[str, ...]


_OPEN, _CLOSE = "([{", ")]}"
_REACH = 1500  # characters to either side of a comparison that its expression may extend


def _left(code: str, position: int) -> int:
    """Where the operand list that holds ``position`` begins."""
    depth = 0
    floor = max(0, position - _REACH)
    at = position
    while at > floor:
        character = code[at - 1]
        if character in _CLOSE:
            if character == "}" and depth == 0:
                return at
            depth += 1
        elif character in _OPEN:
            if depth == 0:
                return at
            depth -= 1
        elif depth == 0:
            if character in ";,?#":
                return at
            if character == ":" and code[at - 2 : at - 1] != ":" and code[at : at + 1] != ":":
                return at
            if character == "=" and code[at - 2 : at - 1] not in {"=", "!", "<", ">"} and code[at : at + 1] != "=":
                return at
        at -= 1
    return at


def _right(code: str, position: int) -> int:
    depth = 0
    ceiling = min(len(code), position + _REACH)
    at = position
    while at < ceiling:
        character = code[at]
        if character in _OPEN:
            if character == "{" and depth == 0:
                return at
            depth += 1
        elif character in _CLOSE:
            if depth == 0:
                return at
            depth -= 1
        elif depth == 0:
            if character in ";,?":
                return at
            if character == ":" and code[at - 1 : at] != ":" and code[at + 1 : at + 2] != ":":
                return at
        at += 1
    return at


_KEYWORD = re.compile(r"\s*(?:return|co_return|throw|case|bool|auto|const|constexpr|static|int|\\)\b\s*|\s*\\\r?\n")


def extent(code: str, start: int, end: int) -> tuple[int, int]:
    """The widest boolean expression around [start, end)."""
    while True:
        left, right = _left(code, start), _right(code, end)
        before = code[:left].rstrip() if left < 200 else code[left - 200 : left].rstrip()
        grouping = before.endswith("(") and code[right : right + 1] == ")"
        outer = before[:-1].rstrip() if grouping else ""
        if grouping and (outer.endswith(("&&", "||", "!", "(", "=", "?", ":", ",")) or outer.endswith("return")):
            inner = left - (len(code[max(0, left - 200) : left]) - len(before)) - 1
            start, end = inner, right + 1
            if outer.endswith("!"):
                start = code.rfind("!", 0, inner)
            continue
        while (word := _KEYWORD.match(code, left, start)) is not None and word.end() > left:
            left = word.end()
        while left < right and code[left].isspace():
            left += 1
        while right > left and (code[right - 1].isspace() or code[right - 1] == "\\"):
            right -= 1
        if code[right - 2 : right] in {"&&", "||"}:  # what followed was a string: assert(x && "why")
            right = len(code[: right - 2].rstrip())
        return left, right


def _split(code: str, start: int, end: int, operator: str) -> list[tuple[int, int]]:
    """The parts of [start, end) between the operator at depth 0."""
    parts, depth, begin, at = [], 0, start, start
    while at < end:
        character = code[at]
        if character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif depth == 0 and code.startswith(operator, at, end):
            parts.append((begin, at))
            at += len(operator)
            begin = at
            continue
        at += 1
    parts.append((begin, end))
    return parts


_TEMPLATE = re.compile(r"(?<=\w)<(?:[\w\s:,*.()\\]|&(?!&))*>(?=\s*(?:[(:|){,;>.\\]|&&|\Z))")


def masked(code: str) -> str:
    """The code with template argument lists turned to underscores, so that their commas do not end an expression."""
    for _ in range(4):
        masked = _TEMPLATE.sub(lambda match: "_" * len(match.group()), code)
        if masked == code:
            break
        code = masked
    return code


def read_condition(
    code: str, mask: str, start: int, end: int, depth: int = 0, given: frozenset[str] = frozenset()
) -> Condition:
    """The expression in [start, end) of text without comments and strings; what is not about the arch is free.

    ``mask`` is the same text with template arguments masked, ``given`` are variables that hold the capability.
    """
    while start < end and (code[start].isspace() or code[start] == "\\"):
        start += 1
    while end > start and (code[end - 1].isspace() or code[end - 1] == "\\"):
        end -= 1
    if start >= end or depth > 40:
        return Free()
    for operator, join in (("||", Either), ("&&", All)):
        parts = _split(mask, start, end, operator)
        if len(parts) > 1:
            return join(tuple(read_condition(code, mask, *part, depth + 1, given) for part in parts))
    if code[start] == "!" and code[start + 1 : start + 2] != "=":
        return Not(read_condition(code, mask, start + 1, end, depth + 1, given))
    if code[start] == "(" and _closes(mask, start) == end - 1:
        ternary = len(_split(mask, start + 1, end - 1, "?")) > 1
        return Free() if ternary else read_condition(code, mask, start + 1, end - 1, depth + 1, given)
    found = COMPARE.search(code, start, end)
    if found is not None and not (code[start : found.start()] + code[found.end() : end]).strip(" \t\r\n\\()"):
        told = term(found, given)
        if told is not None:
            return told[0]
    return Free(code[start:end][:60])


def _closes(code: str, start: int) -> int:
    """The offset of the parenthesis that closes the one at ``start``."""
    depth = 0
    for at in range(start, min(len(code), start + 2 * _REACH)):
        if code[at] == "(":
            depth += 1
        elif code[at] == ")":
            depth -= 1
            if depth == 0:
                return at
    return -1


_OPERATOR = re.compile(r">=|<=|==|!=|>(?![>=])|<(?![<=])")
_STEMS = "sm|arch|major|minor|capab|cc|first"
_SPOTS = matcher(
    rf"(?:{_STEMS})\w*(?:\(\))?(?:[ ]?/[ ]?100?)?[\s\\()]*(?:[<>=!]=|[<>])[\s\\]*(?:\w+::)*(?:k?sm_?)?[0-9]"
    rf"|[0-9][\s\\()]*(?:[<>=!]=|[<>])[\s\\]*(?:[a-z_][\w.:>()-]*)?(?:{_STEMS})"
    r"|is_major_v\s*<|arch::Sm[0-9]",
    fold=True,
)
"""Where a name that may be about the architecture meets a number; at least what :func:`_meets` lets through."""
_NUMBER_RIGHT = re.compile(  # a major (5 to 13), a capability or a macro's value; not the 0 and 1 of most comparisons
    r"[\s\\]*(?:(?:\w+::)*k?[Ss][Mm]_?)?(?:[5-9]|1[0-3]|[3-9]\d|1[0-3]\d|\d{3,4})[af]?(?![\w.'])"
)
_MINOR_RIGHT = re.compile(r"[\s\\]*\d(?![\w.'])")
_MINOR_LEFT = re.compile(r"(?:\w_|\w[.]|->)minor[\s\\()]*$|[a-z]Minor[\s\\()]*$")
"""A minor number alone tells members of a family apart; a bare ``minor`` may be any version's."""
_INTEREST = re.compile(_STEMS, re.IGNORECASE)
_BACK, _AHEAD = 110, 90


_DIVIDED = re.compile(r" ?/ ?100?[\s\\()]*$")


def _word_left(text: str, offset: int) -> str:
    """The word that ends before an offset; blanks, parentheses and a division by 10 or 100 are skipped."""
    floor = max(0, offset - 60)
    divided = _DIVIDED.search(text, floor, offset)
    at = offset if divided is None else divided.start()
    while at > floor and (text[at - 1].isspace() or text[at - 1] in "()\\"):
        at -= 1
    end = at
    while at > floor and (text[at - 1].isalnum() or text[at - 1] == "_"):
        at -= 1
    return text[at:end]


def _may_end_number(before: str) -> bool:
    """Whether the character before an operator ends a number or is skipped on the way to one."""
    return before.isdigit() or before.isspace() or before in "()\\"


_WORD_RIGHT = re.compile(r"[\s\\]*([A-Za-z_][\w.:>()-]*)")


def _meets(text: str, operator: re.Match[str]) -> bool:
    """Whether a name of interest and a number stand at the two sides of an operator."""
    start, end = operator.span()
    if _NUMBER_RIGHT.match(text, end) is not None:
        return _INTEREST.search(_word_left(text, start)) is not None
    if _MINOR_RIGHT.match(text, end) is not None and _MINOR_LEFT.search(text, max(0, start - 60), start) is not None:
        return True
    if not _may_end_number(text[start - 1 : start]) or not _word_left(text, start).isdigit():
        return False
    right = _WORD_RIGHT.match(text, end, end + 80)
    return right is not None and _INTEREST.search(right.group(1)) is not None


_READS = matcher(r"[a-z_]\w*(?:version|capability|arch)\w*\([\w.]*\)[ \t]*;", fold=True)
_TAKES = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)\s*=\s*(?:\w+::)*$")


def _given(text: str, data: bytes) -> frozenset[str]:
    """Variables that are given what a call reads of the device: ``auto capacity = GetCudaComputeCapability();``."""
    names: set[str] = set()
    for call in _READS.finditer(data):
        start = call.start()
        taken = _TAKES.search(text, max(0, start - 80), start)
        if taken is not None and reads_capability(text[start : text.index("(", start)]):
            names.add(taken.group(1))
    return frozenset(names)


def _spots(text: str, data: bytes, given: frozenset[str]) -> Iterator[int]:
    """Where a comparison about the architecture may stand, in order."""
    unspoken = [name for name in given if _INTEREST.search(name) is None]
    if not unspoken:
        yield from _spoken(text, data)
        return
    meets = re.compile(rf"\b(?:{'|'.join(sorted(unspoken))})\s*(?=[<>=!]=|[<>](?![<>]))")
    yield from sorted({*_spoken(text, data), *(match.end() for match in meets.finditer(text))})


def _spoken(text: str, data: bytes) -> Iterator[int]:
    found = _SPOTS.search(data)
    while found is not None:
        start, end = found.start(), found.end()
        if text[start : start + 6].lower() in ("is_maj", "arch::"):
            yield start + 1
        elif (operator := _OPERATOR.search(text, start, end + 1)) is not None:
            end = operator.end()
            if _meets(text, operator):
                yield operator.start()
        found = _SPOTS.search(data, max(end, start + 1))


def _candidates(text: str, data: bytes, given: frozenset[str]) -> Iterator[re.Match[str]]:
    """The comparisons of a name with a number where the name may be about the architecture, in order.

    The places are looked for first: the pattern of a whole comparison would be tried at every word of the file.
    """
    done = -1
    for spot in _spots(text, data, given):
        if spot < done:
            continue
        for match in COMPARE.finditer(text, max(0, done, spot - _BACK), spot + _AHEAD):
            if match.end() > spot:
                if match.start() <= spot:
                    done = match.end()
                    yield match
                break


def comparisons(text: str, skip: Callable[[int], int]) -> Iterator[Comparison]:
    """Every host expression about the architecture.

    ``skip`` gives for an offset the end of what is no code there (a comment, a string, a directive), 0 for code.
    """
    done = -1
    code = mask = ""
    data = text.encode("latin-1")
    given = _given(text, data)
    for match in _candidates(text, data, given):
        if match.start() < done or term(match, given) is None or skip(match.start()):
            continue
        if not code:
            code = blank(text)
            mask = masked(code)
        start, end = extent(mask, match.start(), match.end())
        condition = read_condition(code, mask, start, end, given=given)
        done = max(end, match.end())
        if not speaks(condition):
            done = match.end() if end - start < _REACH else done  # an expression without end is no expression
            start, end = match.span()
            told = term(match, given)
            condition = told[0] if told else condition
        inside = [
            (each, told) for each in COMPARE.finditer(code, start, end) if (told := term(each, given)) is not None
        ]
        names = tuple(dict.fromkeys(told[1] for _, told in inside))
        first = min((each.start() for each, _ in inside), default=start)
        last = max((each.end() for each, _ in inside), default=end)
        if len(names) > 1 and all(evaluate(condition, arch) is False for arch in KNOWN_ARCHS):
            condition = Unknown(text[start:end])  # a configuration's and a device's, ``config == 10 && sm == 11``
        yield Comparison(condition, start, end, first, last, names)
