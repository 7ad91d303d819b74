"""What host code lets an architecture come to, and the build list of that part does not hold.

::

    cuda_archs_loose_intersection(FP4_ARCHS "10.0a;10.3a" "${CUDA_ARCHS}")
    if(FP4_ARCHS)
      list(APPEND FLAGS "-DENABLE_FP4_SM100=1")

    #if defined ENABLE_FP4_SM100
      if (version_num >= 100) return fp4_sm100(a, b);   // sm_120 comes here too

The shapes are those of vllm#45260 and pytorch#188597, as far as the build list's name leads to the gate. It can be told
from the sources of a package, which have its build files; a wheel has the binary instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ungate.model import Gate
from ungate.trace.chain import Trace

__all__ = ["Unbuilt", "unbuilt"]

_VARIABLE = re.compile(r"^\w+\(\s*(\w+)")
_DEFINES = re.compile(rb"-D(\w+)(?:=1)?\b")
_IF = re.compile(rb"^[ \t]*(?:else)?if\s*\(([^\n]*)\)[ \t]*$", re.MULTILINE | re.IGNORECASE)
_DIRECTIVE = re.compile(rb"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b((?:\\\n|[^\n])*)", re.MULTILINE)
_WORD = re.compile(rb"\w+")


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """A gate that lets ``archs`` through under ``macro``, which a build list without them defines."""

    gate: Gate
    macro: str
    list: Gate
    archs: tuple[int, ...]


def unbuilt(trace: Trace, only: Sequence[int]) -> Iterator[Unbuilt]:
    """Each condition of host code that admits an architecture for which the part it belongs to is not built."""
    macros = _macros(trace)
    if not macros:
        return
    for file in trace.gates.files:
        text = trace.corpus.text(file) if not file.endswith((".py", ".cmake", "CMakeLists.txt")) else b""
        if not any(macro in text for macro in macros):
            continue
        for gate in trace.gates.of(file):
            if gate.pattern != "cuda-host-compare" or not gate.passes.decided:
                continue
            lists = [each for macro in _around(text, gate.span[0]) for each in macros.get(macro, ())]
            admitted = gate.passes.yes.difference(*(each.passes.yes for each in lists)) if lists else frozenset()
            archs = tuple(arch for arch in only if arch in admitted)
            if archs:
                macro = next(macro for macro in _around(text, gate.span[0]) if macro in macros)
                yield Unbuilt(gate, macro.decode(), lists[0], archs)


def _macros(trace: Trace) -> dict[bytes, list[Gate]]:
    """The macros that build files define where a list of architectures is not empty, with the lists."""
    found: dict[bytes, list[Gate]] = {}
    for file in trace.gates.files:
        if not file.endswith((".cmake", "CMakeLists.txt", ".cmake.in")):
            continue
        text = _text(trace, file)
        lists: dict[bytes, list[Gate]] = {}
        for gate in trace.gates.of(file):
            variable = _VARIABLE.match(gate.condition)
            if variable is not None:
                lists.setdefault(variable.group(1).encode(), []).append(gate)
        last = 0
        for defines in _DEFINES.finditer(text):
            asked = [
                test for test in _IF.finditer(text, 0, defines.start()) if lists.keys() & set(_WORD.findall(test[1]))
            ]
            names = lists.keys() & set(_WORD.findall(asked[-1][1])) if asked else set()
            for name in sorted(names):
                before = [gate for gate in lists[name] if gate.span[0] < asked[-1].start()]
                recent = [gate for gate in before if gate.span[0] > last] or before[-1:]
                found.setdefault(defines[1], []).extend(recent)
            last = defines.start() if names else last
    return found


def _text(trace: Trace, file: str) -> bytes:
    """A build file's text; the corpus lists sources alone."""
    for package in trace.corpus.packages:
        if (path := package.root / file).is_file():
            try:
                return path.read_bytes()
            except OSError:
                continue
    return b""


def _around(text: bytes, offset: int) -> list[bytes]:
    """The macros that the directives around a place ask for to be set."""
    stack: list[bytes] = []
    for directive in _DIRECTIVE.finditer(text, 0, offset):
        word, rest = directive.group(1), directive.group(2)
        if word in (b"if", b"ifdef"):
            stack.append(rest)
        elif word == b"ifndef":
            stack.append(b"")
        elif word == b"endif":
            del stack[-1:]
        elif stack:
            stack[-1] = rest if word == b"elif" else b""
    return [name for rest in stack if b"!" not in rest for name in _WORD.findall(rest)]
