"""More shared memory a block, or a larger cluster, than the target has, in code that opening brings in.

A launch that asks for too much fails when it is made, often behind a check that nobody reads. Registers are no matter
for this rule: every architecture here has 64 Ki of them a block and 255 a thread; ``ungate build`` prints the spills.

As printed::

    danger  asks for 232448 bytes of shared memory a block, and sm_120 has 101376
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.check.emerging import Emerging, emerging_files
from ungate.check.limits import SHARED_PER_BLOCK, SOURCE
from ungate.check.question import Question
from ungate.model import Finding, Reached
from ungate.source.cuda.comments import blank
from ungate.source.cuda.constants import Constants

__all__ = ["find"]

_CAPACITY = re.compile(r"\bsm(?P<arch>\d{2,3})_smem_capacity_bytes\b")  # CUTLASS's constant of an architecture
_DYNAMIC = re.compile(
    r"\b(?:cudaFuncAttribute|CU_FUNC_ATTRIBUTE_)\w*(?:MaxDynamicSharedMemorySize|MAX_DYNAMIC_SHARED_SIZE_BYTES)\s*,\s*"
)
_CLUSTER = re.compile(
    r"\bcudaLaunchAttributeClusterDimension\b|\bCU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION\b|\b__cluster_dims__\s*\("
)
_DIMENSIONS = re.compile(r"__cluster_dims__\s*\((?P<listed>[^()]*)\)|clusterDim\.(?P<axis>[xyz])\s*=\s*(?P<one>[^;]+);")
_BRACE = re.compile(r"[{}]")
_NAMESPACE = re.compile(r"(?:\bnamespace\b[\w:\s]*|\bextern\b[\s\"\w]*)$")
_HEAD = 200  # characters before a brace in which its namespace would be named
_MEASURED = re.compile(r"\bcudaDevAttrMaxSharedMemoryPer\w+|\bsharedMemPer(?:Block\w*|Multiprocessor)\b")
_CLUSTERS_FROM = 90  # cuda::arch_traits: cluster_supported
_PORTABLE = 8
"""Thread blocks a cluster that every GPU with clusters takes ("CUDA C++ Programming Guide", Thread Block Clusters)."""


def find(question: Question) -> Iterator[Finding]:
    """One finding for each demand above the target's limit that can be worked out from the file."""
    limit = SHARED_PER_BLOCK.get(question.target.number)
    for each in emerging_files(question):
        if limit is not None:
            yield from _shared(question, each, limit)
        yield from _clusters(question, each)


def _shared(question: Question, each: Emerging, limit: int) -> Iterator[Finding]:
    text = each.code.text
    if "_smem_capacity" not in text and "ynamicShared" not in text and "DYNAMIC_SHARED" not in text:
        return
    code = blank(text)
    seen: set[int] = set()
    for found in _CAPACITY.finditer(code):
        arch = int(found["arch"])
        most = SHARED_PER_BLOCK.get(arch)
        if most is not None and most > limit and each.holds(found.start()) and arch not in seen:
            seen.add(arch)
            yield _finding(
                question,
                each,
                found.start(),
                what=f"is laid out for the {most} bytes of shared memory a block of sm_{arch}, "
                f"and {question.target} has {limit}",
                confidence="medium",  # the stages may still be few enough
            )
    measured = _MEASURED.search(code) is not None
    for found in _DYNAMIC.finditer(code):
        if not each.holds(found.start()):
            continue
        asked = Constants(_scope(code, found.start())).value(_argument(code, found.end()))
        if asked is not None and asked > limit:
            what = f"asks for {asked} bytes of shared memory a block, and {question.target} has {limit}"
            if measured:
                what += "; the file asks the device how much it has, and may not come to this launch"
            yield _finding(question, each, found.start(), what=what, confidence="medium" if measured else "high")


def _scope(code: str, offset: int) -> str:
    """The text without blocks in braces that do not hold ``offset``: a name in one of them is another variable.

    Blocks of a namespace are kept. ``code`` has no comments and no strings.
    """
    dropped, opened = list[tuple[int, int]](), list[int]()
    for brace in _BRACE.finditer(code):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            start, end = opened.pop(), brace.end()
            if start <= offset < end or _NAMESPACE.search(code[max(0, start - _HEAD) : start]):
                continue
            while dropped and dropped[-1][0] > start:
                dropped.pop()
            dropped.append((start, end))
    parts, position = list[str](), 0
    for start, end in dropped:
        parts.append(code[position:start])
        position = end
    return "".join([*parts, code[position:]])


def _argument(code: str, start: int) -> str:
    depth = 0
    for place in range(start, min(len(code), start + 400)):
        if code[place] in "([{":
            depth += 1
        elif code[place] in ")]}":
            if depth == 0:
                return code[start:place]
            depth -= 1
        elif code[place] == "," and depth == 0:
            return code[start:place]
    return ""


def _clusters(question: Question, each: Emerging) -> Iterator[Finding]:
    code = blank(each.code.text)
    found = next((place for place in _CLUSTER.finditer(code) if each.holds(place.start())), None)
    if found is None:
        return
    if question.target.number < _CLUSTERS_FROM:
        what = f"launches thread block clusters, which {question.target} does not have (they begin with sm_90)"
        yield _finding(question, each, found.start(), what=what, confidence="medium", source="cluster_supported")
        return
    constants = Constants(each.code.text)
    large: dict[int, list[int]] = {}
    for place in _DIMENSIONS.finditer(code):
        if not each.holds(place.start()):
            continue
        parts = place["listed"].split(",") if place["listed"] else [place["one"]]
        sizes = [constants.value(part) for part in parts]
        size = 1
        for one in sizes:
            size *= one or 1
        if None not in sizes and size > _PORTABLE:
            large.setdefault(size, []).append(place.start())
    for size, places in sorted(large.items()):
        often = f" in {len(places)} places" if len(places) > 1 else ""
        what = (
            f"launches clusters of {size} blocks{often}; more than {_PORTABLE} is not portable, "
            f"and {question.target} may refuse it"
        )
        yield _finding(question, each, places[0], what=what, confidence="medium", serious=False)


def _finding(
    question: Question,
    each: Emerging,
    offset: int,
    *,
    what: str,
    confidence: str,
    serious: bool = True,
    source: str = "",
) -> Finding:
    line = each.code.line(offset)
    at = next((item for item in each.code.functions if item.start <= offset < item.end), None)
    return Finding(
        rule="resources",
        severity="danger" if serious and confidence == "high" else "warning",
        what=f"{at.name if at else each.code.file.rpartition('/')[2]} {what}",
        advice="Leave the gate closed, or give this target a smaller tile or fewer stages: opening alone does not fit.",
        evidence=f"limit: {source or SOURCE}",
        confidence=confidence,
        file=each.code.file,
        line=line,
        reached=next((gate.reached for gate in each.gates if gate.reached), None) or Reached.UNKNOWN,
    )
