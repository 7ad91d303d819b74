"""What one comparison in host C++ says about the architecture, judged by the name and the number that meet in it.

A name stands for a compute capability when all its words do (``sm``, ``kSMVersion``, ``getSMVersion()``, ``arch``,
``prop.major``); ``num_sms``, ``smem`` and ``mma_sm == 1`` do not. A number is a capability (90, ``kSM_90``), a macro's
value (900) or, beside a name for the major version, a major (9).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ungate.model import KNOWN_ARCHS
from ungate.source.condition import Known

__all__ = ["COMPARE", "SUBJECT", "reads_capability", "speaks_of_arch", "term"]

_OPERATOR: dict[str, Callable[[int, int], bool]] = {
    ">=": lambda left, right: left >= right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    "<": lambda left, right: left < right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
}
_MIRROR = {">=": "<=", "<=": ">=", ">": "<", "<": ">", "==": "==", "!=": "!="}
SUBJECT = r"(?:[A-Za-z_]\w*(?:\(\s*\))?(?:\.|->|::))*[A-Za-z_]\w*(?:\(\s*\))?"
_COMPOSITE = rf"{SUBJECT}\s*\*\s*(?P<times>10|100)\s*\+\s*{SUBJECT}(?:\s*\*\s*10)?"
_NAMED = r"(?:(?:\w+::)*k?[Ss][Mm]_?)?"  # kSM_90 and its like
COMPARE = re.compile(
    rf"(?P<composite>(?P<paren>\(\s*)?{_COMPOSITE}(?(paren)\s*\)))\s*(?P<op3>>=|<=|==|!=|>|<)\s*(?P<number3>\d{{2,4}})\b"
    rf"|(?P<paren4>\(\s*)?(?P<quotient>{SUBJECT})\s*/\s*(?P<by>100?)\b(?(paren4)\s*\))"
    r"\s*(?P<op4>>=|<=|==|!=|>(?!>)|<(?!<))\s*(?P<number4>\d{1,3})\b(?![.'])"
    r"|(?:\w+::)*\bis_major_v\s*<\s*(?P<major>\d{1,2})\s*>"
    rf"|(?P<subject>{SUBJECT})\s*(?P<op1>>=|<=|==|!=|>(?!>)|<(?!<))\s*{_NAMED}(?P<number1>\d{{1,4}})[af]?(?![\w.'])"
    rf"|(?<![\w.'])(?P<number2>\d{{1,4}})\s*(?P<op2>>=|<=|==|!=|>(?!>)|<(?!<))\s*(?P<subject2>{SUBJECT})"
    r"|\bis_same(?:_v)?\s*<[^<>;{}]*\barch::Sm(?P<tag>\d{2,3})[a-z]?\s*>(?:::value)?"
)
"""One comparison, or one test of a type tag."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ABOUT = frozenset({"sm", "arch", "capability", "cc"})
_BESIDE_WORDS = (
    "version arch number k m g s device gpu cuda get current target compute capability min cc sm value int host tag the"
    " real query detected runtime"
)
_BESIDE = frozenset(_BESIDE_WORDS.split())
_MAJOR_WORDS = "sm version cc compute capability k m device prop props arch architecture get gpu dev my"
_BESIDE_MAJOR = frozenset(_MAJOR_WORDS.split())
_CAPABILITIES = frozenset({*KNOWN_ARCHS, 30, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 101, 130})
_MAJORS = range(5, 14)


def _last(name: str) -> tuple[str, frozenset[str], bool]:
    """The last component of a subject, its words in lower case, and whether it is a member of something."""
    bare = re.sub(r"\(\s*\)", "", name)
    parts = re.split(r"\.|->|::", bare)
    return parts[-1], frozenset(word.lower() for word in _WORDS.findall(parts[-1])), len(parts) > 1


def reads_capability(name: str) -> bool:
    """Whether a function of this name gives the capability: ``GetCudaComputeCapability``, ``get_sm_version_num``."""
    words = _last(name)[1]
    return speaks_of_arch(name) or ("version" in words and bool(words & _ABOUT) and words <= _BESIDE | _ABOUT | {"num"})


def _scale(name: str, number: int, given: frozenset[str] = frozenset()) -> Callable[[int], int] | None:
    """How the subject's value follows from a capability, judged by its name and the number it meets; None: no arch."""
    last, words, member = _last(name)
    if name.partition(".")[0] in given:
        if not member:
            words = frozenset({"sm"})
        elif last in ("first", "second"):
            words = frozenset({"major" if last == "first" else "minor"})
    if last.startswith("__CUDA_ARCH"):
        return (lambda arch: arch * 10) if last == "__CUDA_ARCH__" else None
    if "major" in words or (last == "first" and re.search(r"(?i)capability", name)):
        if number in _MAJORS and words - {"major", "first"} <= _BESIDE_MAJOR and words != {"version", "major"}:
            return lambda arch: arch // 10
        return None
    if "minor" in words:
        if number < 10 and words - {"minor"} <= _BESIDE_MAJOR and words != {"version", "minor"}:
            return lambda arch: arch % 10
        return None
    if re.fullmatch(r"[A-Z][A-Z0-9_]*_ARCH", last) and number >= 500 and number % 10 == 0:
        return lambda arch: arch * 10
    if not words & _ABOUT or not (words <= _BESIDE | _ABOUT or words == {"arch", "num"}):
        return None
    if words == {"cc"} and not member and number < 50:
        return None
    if number in _CAPABILITIES:
        return lambda arch: arch
    if number >= 500 and number % 10 == 0 and number // 10 in _CAPABILITIES:
        return lambda arch: arch * 10
    return None


def speaks_of_arch(name: str) -> bool:
    """Whether a name alone stands for a compute capability, as in ``switch (sm)``."""
    words = _last(name)[1]
    return bool(words & _ABOUT) and words <= _BESIDE | _ABOUT


def _where(value: Callable[[int], int], operator: str, number: int, text: str) -> Known:
    test = _OPERATOR[operator]
    return Known(frozenset(arch for arch in KNOWN_ARCHS if test(value(arch), number)), text)


def term(match: re.Match[str], given: frozenset[str] = frozenset()) -> tuple[Known, str] | None:
    """What one match says, and the name that it reads. ``given`` are variables that hold the capability."""
    text = " ".join(match.group().split())
    if match["major"]:
        major = int(match["major"])
        return Known(frozenset(arch for arch in KNOWN_ARCHS if arch // 10 == major), text), "is_major_v"
    if match["tag"]:
        return Known(frozenset({int(match["tag"])}) & frozenset(KNOWN_ARCHS), text), f"Sm{match['tag']}"
    if match["composite"]:
        if "major" not in match["composite"].lower():
            return None
        times = 1 if match["times"] == "10" else 10
        return _where(lambda arch: arch * times, match["op3"], int(match["number3"]), text), "major"
    if match["quotient"]:
        name, number, by = match["quotient"], int(match["number4"]), int(match["by"])
        whole = _scale(name, number * by, given)
        if whole is None:
            return None
        return _where(lambda arch: whole(arch) // by, match["op4"], number, text), _last(name)[0]
    if match["subject"]:
        name, operator, number = match["subject"], match["op1"], int(match["number1"])
    else:
        name, operator, number = match["subject2"], _MIRROR[match["op2"]], int(match["number2"])
    value = _scale(name, number, given)
    return None if value is None else (_where(value, operator, number, text), _last(name)[0])
