"""A CUTLASS architecture tag that a kernel is built for.

::

    using ArchTag = cutlass::arch::Sm90;

    group_gemm_sm90.cuh:88  run  passes sm_90

The tag selects the instructions. Tags up to Sm89 name the least architecture; from Sm90 on, the instructions they
select exist on that architecture (for Sm100 its family) alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.model import KNOWN_ARCHS
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.condition import Known
from ungate.source.cuda.file import CudaFile

__all__ = ["SAMPLES", "find"]

_TAG = re.compile(r"arch::Sm(\d{2,3})[af]?\b(?!_)")
_FIRST_EXACT = 90
_FAMILY = {100: (100, 103), 120: (120, 121)}


@pattern("cuda-arch-tag", kind="other", language="cuda", rank=60)
def find(file: CudaFile) -> Iterator[Draft]:
    """Every tag in code, once a line."""
    if not file.host:
        return
    seen: set[int] = set()
    for tag in _TAG.finditer(file.text):
        number = int(tag.group(1))
        line = file.line(tag.start())
        if line in seen or number not in KNOWN_ARCHS or file.skip(tag.start()):
            continue
        seen.add(line)
        exact = _FAMILY.get(number, (number,))
        archs = exact if number >= _FIRST_EXACT else tuple(arch for arch in KNOWN_ARCHS if arch >= number)
        yield Draft(
            line=line,
            end_line=line,
            condition=Known(frozenset(archs)),
            text=tag.group(),
            role="use",
            symbol=file.symbol(tag.start()),
            names=(f"Sm{number}",),
            note="a type tag: the instructions behind it exist on these architectures alone",
        )


SAMPLES = (
    Nothing("include-and-comment", '#include "cutlass/arch/arch.h"\n// uses cutlass::arch::Sm90\nint x;\n'),
    Finds("using", "using ArchTag = cutlass::arch::Sm90;\n", {1: (90,)}),
    Finds("least", "using ArchTag = cutlass::arch::Sm80;\n", {1: tuple(a for a in KNOWN_ARCHS if a >= 80)}),
)
