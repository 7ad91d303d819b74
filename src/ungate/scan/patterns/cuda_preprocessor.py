"""A preprocessor condition that lets some architectures keep the lines below it.

::

    #if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))

    trtllm_allreduce.cuh:711  lamport_style_one_shot_all_reduce_norm_kernel  passes sm_90 sm_100 sm_103 sm_107 sm_110

Kernels are compiled once an architecture, so a body under such a condition is simply empty elsewhere: it
launches, does nothing, and reports no error. Feature and family macros, and macros that a header defines under
an arch ``#if``, are followed to the architectures they stand for. A condition that selects the fallback (``< 800``
with the native path under ``#else``, or an ``#error``) refuses: the architectures that get through are the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ungate.model import KNOWN_ARCHS, Form, Sense
from ungate.scan.draft import Draft, Finds, Nothing, left
from ungate.scan.patterns import pattern
from ungate.source.condition import Condition, Free, Unknown, certain, possible
from ungate.source.cuda.conditions import Judged
from ungate.source.cuda.directives import Branch
from ungate.source.cuda.expression import Binary, Defined, Expression, Unary, parse, unreadable
from ungate.source.cuda.file import CudaFile
from ungate.source.cuda.macros import at_its_time, condition_text, defined_inside

__all__ = ["SAMPLES", "find", "sense_of"]

_STOPS = re.compile(
    r"__trap\s*\(|\btrap;|static_assert\s*\(\s*(?:false|0)\b|\bassert\s*\(\s*(?:false|0)\b|CUTLASS_NOT_IMPLEMENTED"
    r"|CUTE_INVALID_CONTROL_PATH|__builtin_trap|__builtin_unreachable|\babort\s*\(|UNREACHABLE|NOT_SUPPORTED"
    r"|_NO_DEVICE_CODE|not\s+supported|unsupported",
    re.IGNORECASE,
)
_ARCH = re.compile(r"^__CUDA_ARCH|_ARCH$")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_LAST_OLD = 90
"""A bound up to here cuts off old hardware: the fallback stands in the branch. A higher one may hold back new one."""


@pattern("cuda-preprocessor", kind="preprocessor", language="cuda", rank=10)
def find(file: CudaFile) -> Iterator[Draft]:
    """Every ``#if``, ``#elif``, ``#ifdef`` and ``#ifndef`` that tells architectures apart."""
    reading = file.reading
    inside = defined_inside(reading)
    for branch in reading.branches:
        directive = branch.directive
        if directive.keyword == "else":
            continue
        text = condition_text(branch)
        judged = file.conditions.judge(at_its_time(text, inside.get(branch.index, frozenset())))
        if not judged.gate:
            continue
        form = Form.PREPROCESSOR if directive.keyword in {"if", "elif"} else Form.MACRO_TEST
        span = directive.span
        if form is Form.MACRO_TEST:
            name = re.match(r"\w+", file.text[span[0] : span[1]])
            span = (span[0], span[0] + len(name.group())) if name else span
        yield Draft(
            line=directive.line,
            end_line=directive.end_line,
            condition=judged.tree,
            text=text,
            role="test" if any(_ARCH.search(name) for name in judged.names) else "use",
            form=form,
            span=span,
            sense=sense_of(file, branch, text),
            symbol=file.symbol(directive.start),
            names=judged.names,
            note="; ".join(filter(None, (_note(judged, text), _within(file, branch, inside)))),
        )


def _within(file: CudaFile, branch: Branch, inside: Mapping[int, frozenset[str]]) -> str:
    """Which archs get as far as a directive, where those around it and the branches before it leave out some."""

    def judged(index: int) -> Condition:
        text = condition_text(file.reading.branches[index])
        if not all(name == "defined" or name.startswith("__CUDA_ARCH") for name in _IDENTIFIER.findall(text)):
            return Free(text)  # another macro has its say, and a tree does not tell which
        return file.conditions.judge(at_its_time(text, inside.get(index, frozenset()))).tree

    archs = set(KNOWN_ARCHS)
    at = branch
    while True:
        for index in at.earlier:
            tree = judged(index)
            archs = {arch for arch in archs if not certain(tree, arch)}
        if at.parent < 0:
            break
        at = file.reading.branches[at.parent]
        if at.directive.keyword != "else":
            tree = judged(at.index)
            archs = {arch for arch in archs if possible(tree, arch)}
    return left(archs) if len(archs) < len(KNOWN_ARCHS) else ""


def _note(judged: Judged, text: str) -> str:
    if isinstance(judged.tree, Unknown) and judged.names:
        if why := unreadable(text):
            return why
        return f"{judged.names[0]} is set by the build: which architectures set it is not in this file"
    return ""


def sense_of(file: CudaFile, branch: Branch, text: str) -> Sense:
    """REFUSE where the branch stops or holds the fallback, else ALLOW."""
    reading = file.reading
    body = file.text[branch.start : branch.end]
    if any(branch.start <= error < branch.end for error in reading.errors) and len(body) < 2000:
        return Sense.REFUSE
    otherwise = reading.otherwise(branch)
    old = file.conditions.judge(text).until
    if old is None and not _negative(parse(text)):
        return Sense.ALLOW
    stops = _STOPS.search(body[:4000]) is not None
    if otherwise is None:
        return Sense.REFUSE if stops else Sense.ALLOW
    other = file.text[otherwise.start : otherwise.end]
    if old is not None and old > _LAST_OLD and not stops and (len(body) > len(other) or _STOPS.search(other[:4000])):
        return Sense.ALLOW
    return Sense.REFUSE


def _negative(expression: Expression) -> bool:
    """Whether the condition is a denial: ``!defined(X)``, ``!(…)``, or several of them joined."""
    match expression:
        case Unary(operator="!", of=Defined(name=name)):
            return name != "__CUDA_ARCH__"
        case Unary(operator="!"):
            return True
        case Binary(operator="&&" | "||", left=left, right=right):
            return _negative(left) and _negative(right)
        case _:
            return False


_NEW = (90, 100, 103, 107, 110)
_FROM_80 = (80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121)

SAMPLES = (
    Nothing("host-device-split", "#if !defined(__CUDA_ARCH__)\nint host();\n#endif\n"),
    Nothing("toolkit-version", "#if CUDA_VERSION >= 12080 && __CUDACC_VER_MAJOR__ >= 12\n#endif\n"),
    Nothing("else-and-endif", "#ifdef NDEBUG\n#else // __CUDA_ARCH__ >= 900\n#endif  // __CUDA_ARCH__ >= 900\n"),
    Nothing("comment", "/*\n#if __CUDA_ARCH__ >= 900\n#endif\n*/\n"),
    Finds(
        "range-over-two-lines",
        "#if defined(__CUDA_ARCH__) /* device */ && \\\n"
        "  (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200)  // hopper\n#endif\n",
        {1: _NEW},
        {1: "defined(__CUDA_ARCH__) /* device */ && \\\n  (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200)"},
    ),
    Finds(
        "fallback-first",
        "#if __CUDA_ARCH__ < 800\nint slow;\n#else\nint native;\n#endif\n",
        {1: _FROM_80},
        {1: "__CUDA_ARCH__ < 800"},
    ),
    Finds(
        "macro-at-one-remove",
        "#if __CUDA_ARCH__ >= 900\n#define BARRIER_ENABLED 1\n#endif\n#ifdef BARRIER_ENABLED\nint x;\n#endif\n",
        {1: (90, 100, 103, 107, 110, 120, 121), 4: (90, 100, 103, 107, 110, 120, 121)},
        {4: "BARRIER_ENABLED"},
    ),
)
