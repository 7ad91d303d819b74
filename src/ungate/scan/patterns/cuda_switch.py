"""A case of a ``switch`` over the architecture.

::

    switch (sm) {
      case 90: return hopper(params);

    dispatch.cu:41  dispatch  passes sm_90

Each case is a gate of its own; what is not listed falls to ``default``, which mostly throws.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.model import KNOWN_ARCHS, Form
from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.condition import Known
from ungate.source.cuda.file import CudaFile
from ungate.source.cuda.host_terms import speaks_of_arch

__all__ = ["SAMPLES", "find"]

_SWITCH = re.compile(r"switch\s*\(\s*([\w.:>()-]+?)\s*\)\s*\{")
_CASE = re.compile(r"\bcase\s+(?:(?:\w+::)*k?[Ss][Mm]_?)?(\d{2,4})[af]?\s*:")
_LONGEST = 20_000


@pattern("cuda-switch", kind="host-cpp-compare", language="cuda", rank=30)
def find(file: CudaFile) -> Iterator[Draft]:
    """Every case that names a capability."""
    if not file.host:
        return
    for switch in _SWITCH.finditer(file.text):
        subject = switch.group(1)
        if not speaks_of_arch(subject) or file.skip(switch.start()):
            continue
        end = _end(file.text, switch.end())
        for case in _CASE.finditer(file.text, switch.end(), end):
            number = int(case.group(1))
            number = number // 10 if number >= 500 else number
            if number not in KNOWN_ARCHS or file.skip(case.start()):
                continue
            line = file.line(case.start())
            yield Draft(
                line=line,
                end_line=line,
                condition=Known(frozenset({number})),
                text=f"{subject} == {number}",
                form=Form.FIXED,
                symbol=file.symbol(case.start()),
                names=(subject,),
                note="a case of a switch: another case must be written to open it",
            )


def _end(text: str, start: int) -> int:
    depth, limit = 1, min(len(text), start + _LONGEST)
    for brace in re.finditer(r"[{}]", text[start:limit]):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return start + brace.start()
    return limit


SAMPLES = (
    Nothing("tile-config", "void f() { switch (c.tile_config_sm90) { case 90: g(); } }  // arch_\n"),
    Finds(
        "capability",
        "int f(int sm) {\n  switch (sm) {\n    case 90:\n      return 1;\n    case 120: return 2;\n  }\n}  // (sm)\n",
        {3: (90,), 5: (120,)},
    ),
)
