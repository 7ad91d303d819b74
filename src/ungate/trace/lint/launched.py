"""Launch attributes that host code sets for an architecture and another place says that it lacks.

::

    config.numAttrs = sm >= 90 ? 2 : 0;                       // a cluster dimension on sm_120 too
    if (sm >= 90 && sm < 120) { attribute[1].id = cudaLaunchAttributeClusterDimension; ... }

The shape is that of TensorRT-LLM#13169. Which of the two is right is not said: only that both cannot be. A place that
names Hopper alone says nothing of what came later, so that one counts only if it lets a later major through as well.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ungate.model import Gate, Sense
from ungate.trace.chain import Trace
from ungate.trace.corpus import aside
from ungate.trace.native import blank

__all__ = ["Claim", "Disagreement", "launched"]

_IDS = re.compile(
    rb"\[\s*(\d)\s*\]\s*\.\s*id\s*=\s*cudaLaunchAttribute(ClusterDimension|ProgrammaticStreamSerialization)\b"
)
_ANY = re.compile(rb"cudaLaunchAttribute(ClusterDimension|ProgrammaticStreamSerialization)\b")
_COUNT = re.compile(rb"\bnumAttrs\s*=")
_CHOICE = re.compile(rb"\s*\)?\s*\?\s*(\d)\s*:\s*(\d)")
_BLOCK = re.compile(rb"[\s)]*\{")
_DEVICE = {
    "ProgrammaticStreamSerialization": re.compile(
        rb"griddepcontrol|cudaGridDependencySynchronize|cudaTriggerProgrammatic"
    ),
    "ClusterDimension": re.compile(rb"barrier\.cluster|cluster_(?:sync|arrive|wait)|this_cluster\s*\("),
}
_ANSWERS = {
    "ProgrammaticStreamSerialization": re.compile(r"(?:^|_)pdl(?:_|$)|programmatic_dependent", re.I),
    "ClusterDimension": re.compile(r"supports?_\w*cluster|cluster\w*_support|has_cluster", re.I),
}
_WORDS = {
    "ProgrammaticStreamSerialization": "programmatic dependent launch",
    "ClusterDimension": "a launch in clusters",
}
_FAR = 1500  # bytes before the count of attributes in which they are filled in
_LONGEST = 4000  # bytes of a block


@dataclass(frozen=True, slots=True)
class Claim:
    """A place that sets an attribute, waits for it in device code, or answers whether it can be had."""

    gate: Gate
    how: str


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What is launched so, a place that does it on ``archs``, a place that holds them back, and how many of each."""

    what: str
    sets: Claim
    lacks: Claim
    archs: tuple[int, ...]
    setting: int
    lacking: int


def launched(trace: Trace, only: Sequence[int]) -> Iterator[Disagreement]:
    """Each attribute on which two places disagree for one of the architectures."""
    claims: dict[str, list[Claim]] = {attribute: [] for attribute in _WORDS}
    for file in trace.gates.files:
        for gate in trace.gates.of(file) if not aside(file) else ():
            if gate.passes.decided and not gate.vendored:
                for attribute, how in _claimed(trace, gate):
                    claims[attribute].append(Claim(gate, how))
    for attribute, found in claims.items():
        pairs = [(arch, *pair) for arch in only for pair in itertools.islice(_pairs(found, arch), 1)]
        if not pairs:
            continue
        arch, sets, lacks = pairs[-1]
        setting = sum(1 for claim in found if claim.how == "sets" and arch in claim.gate.passes.yes)
        lacking = sum(1 for claim in found if _lacks(claim.gate, arch))
        archs = tuple(each for each, *_ in pairs)
        yield Disagreement(_WORDS[attribute], sets, lacks, archs, setting, lacking)


def _pairs(found: Sequence[Claim], arch: int) -> Iterator[tuple[Claim, Claim]]:
    """(a place that sets an attribute for an architecture, one that holds it back). Device code counts beside host code
    of its own package only: another package's kernel may do without for its own reasons, such as speed."""
    for sets in found:
        for lacks in found if sets.how == "sets" and arch in sets.gate.passes.yes else ():
            if _lacks(lacks.gate, arch) and (lacks.how != "waits" or lacks.gate.package == sets.gate.package):
                yield sets, lacks


def _lacks(gate: Gate, arch: int) -> bool:
    """Whether a place that asks for Hopper at least, and lets a later major through, holds this architecture back."""
    later = {each // 10 for each in gate.passes.yes}
    return arch >= 90 and arch not in gate.passes.yes and 90 in gate.passes.yes and min(later) == 9 and len(later) > 1


def _claimed(trace: Trace, gate: Gate) -> Iterator[tuple[str, str]]:
    """(attribute, what the place does with it)."""
    if gate.file.endswith(".py"):
        if gate.role == "define":
            name = gate.symbol.rpartition(".")[2]
            yield from ((attribute, "answers") for attribute, words in _ANSWERS.items() if words.search(name))
        return
    text = trace.corpus.text(gate.file)
    if gate.pattern == "cuda-preprocessor":
        inside, other = _region(text, gate.span[1])
        for attribute, words in _DEVICE.items():
            if words.search(inside) and not words.search(other):  # another body that does it too lacks nothing
                yield attribute, "waits"
    elif gate.pattern == "cuda-host-compare" and b"cudaLaunchAttribute" in text and gate.sense is Sense.ALLOW:
        yield from ((attribute, "sets") for attribute in _set(text, gate))


def _region(text: bytes, start: int) -> tuple[bytes, bytes]:
    """What stands under a directive up to the next one, and under the ``#else`` or ``#elif`` that follows it there."""
    marks = list(itertools.islice(re.compile(rb"^[ \t]*#[ \t]*(\w+)", re.MULTILINE).finditer(text, start), 2))
    first = marks[0].start() if marks else len(text)
    second = marks[1].start() if len(marks) > 1 else len(text)
    other = text[first:second] if marks and marks[0].group(1) in (b"else", b"elif") else b""
    return text[start:first][:_LONGEST], other[:_LONGEST]


def _set(text: bytes, gate: Gate) -> frozenset[str]:
    """The attributes that are in force where the condition holds: set in its block, or counted by it."""
    start, end = gate.span
    after = text[end : end + _LONGEST]
    block = _BLOCK.match(after)
    if block is not None:
        inside = _braced(blank(after[block.end() :]))
        return frozenset(found.decode() for found in _ANY.findall(inside))
    statement = text[max(text.rfind(mark, 0, start) for mark in (b";", b"{", b"}")) + 1 : start]
    counts = _CHOICE.match(after)
    if counts is None or not _COUNT.search(statement):
        return frozenset()
    most, least = int(counts.group(1)), int(counts.group(2))
    before = text[max(0, start - _FAR) : start]
    return frozenset(name.decode() for index, name in _IDS.findall(before) if least <= int(index) < most)


def _braced(code: bytes) -> bytes:
    depth = 1
    for mark in re.finditer(rb"[{}]", code):
        depth += 1 if mark.group() == b"{" else -1
        if not depth:
            return code[: mark.start()]
    return code
