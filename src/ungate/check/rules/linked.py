"""A host function that launches nothing on GPUs without NVLink.

All its launches stand under a condition on NVLink, with at most two ranks left out, and there is no ``else``: elsewhere
the call falls through and returns as if it had done its work (flashinfer-ai/flashinfer#4393).

As printed::

    danger  allreduce launches no kernel without NVLink, but for world_size_ == 2, and GPUs 0 and 1 have none
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.check.question import Question
from ungate.model import Finding, Hop, Reached
from ungate.source.cuda.comments import blank
from ungate.source.cuda.functions import Function, functions

__all__ = ["find"]

_LAUNCH = re.compile(r"<<<|\bcudaLaunch(?:Cooperative)?Kernel(?:Ex)?(?:C|ExC)?\s*\(|\bcuLaunchKernel(?:Ex)?\s*\(")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)\([^()]*\)(?P<body>(?:\\\r?\n|[^\n])*)", re.MULTILINE)
_IF = re.compile(r"\bif\s*(?:constexpr\s*)?\(")
_NVLINK = re.compile(r"(?<![!\w])\s*\w*nvlink\w*\b", re.IGNORECASE)
_FEW = re.compile(r"\w*(?:world_?size|ngpus|nranks|num_?ranks|tp_?size)\w*\s*==\s*2\b", re.IGNORECASE)


def find(question: Question) -> Iterator[Finding]:
    """One finding a function, unless all GPUs of the host have NVLink."""
    links = question.facts.links if question.facts is not None else ()
    if links and all(link.nvlink for link in links):
        return
    seen: set[str] = set()
    for hop in question.chain.hops:
        path = question.path(hop.file)
        if hop.file in seen or path is None or path.suffix in {".py", ".so"}:
            continue
        seen.add(hop.file)
        text = path.read_bytes().decode("latin-1")
        if "nvlink" in text.lower():
            for function in functions(text).items:
                if "nvlink" in text[function.open : function.end].lower():
                    yield from _in_function(question, hop, text, function)


def _in_function(question: Question, hop: Hop, text: str, function: Function) -> Iterator[Finding]:
    code = blank(text[function.open : function.end])
    spots = _launches(code)
    regions = [(*region, condition) for condition, region in _guarded(code)]
    under = [[cond for start, end, cond in regions if start <= spot < end] for spot in spots]
    linked = [any(_NVLINK.search(each) for each in conditions) for conditions in under]
    few = {
        " ".join(match[0].split())
        for conditions, held in zip(under, linked, strict=True)
        if not held
        for each in conditions
        if (match := _FEW.search(each))
    }
    free = [
        conditions
        for conditions, held in zip(under, linked, strict=True)
        if not held and not any(map(_FEW.search, conditions))
    ]
    if not any(linked) or free:
        return
    without = [link for link in (question.facts.links if question.facts else ()) if link.nvlink is False]
    but = f", but for {', '.join(sorted(few))}" if few else ""
    here = f", and GPUs {without[0].first} and {without[0].second} have none" if without else ""
    yield Finding(
        rule="linked",
        severity="danger" if without else "warning",
        what=f"{function.name} launches no kernel without NVLink{but}{here}",
        advice="Do not use it on such a host: it returns without an error and without a result. "
        + (f"Use instead: {question.instead}." if question.instead else ""),
        confidence="medium",  # a caller may ask for NVLink before
        file=hop.file,
        line=text.count("\n", 0, function.start) + 1,
        end_line=text.count("\n", 0, function.end) + 1,
        reached=Reached.YES,
    )


def _launches(code: str) -> list[int]:
    """Where kernels are launched, through macros too: the use of a macro counts and not the launch in its text."""
    macros = {
        found["name"]: (found.start(), found.end()) for found in _MACRO.finditer(code) if _LAUNCH.search(found["body"])
    }
    plain = {name: place for name, place in macros.items() if not _IF.search(code, *place)}
    spots = [
        found.start()
        for found in _LAUNCH.finditer(code)
        if not any(start <= found.start() < end for start, end in plain.values())
    ]
    for name, (start, end) in plain.items():
        uses = (found.start() for found in re.finditer(rf"\b{name}\s*\(", code))
        spots += [use for use in uses if not start <= use < end]
    return sorted(spots)


def _guarded(code: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Each condition with the statement or block that it guards."""
    for found in _IF.finditer(code):
        close = _closing(code, found.end() - 1, "(", ")")
        if close < 0:
            continue
        at = close + 1
        while at < len(code) and (code[at].isspace() or code[at] == "\\"):
            at += 1
        end = _closing(code, at, "{", "}") if code[at : at + 1] == "{" else code.find(";", at)
        if end >= 0:
            yield code[found.end() : close], (at, end + 1)


def _closing(code: str, start: int, opening: str, closing: str) -> int:
    depth = 0
    for position in range(start, len(code)):
        if code[position] == opening:
            depth += 1
        elif code[position] == closing:
            depth -= 1
            if depth == 0:
                return position
    return -1
