"""Architectures in the build flags of C++ and CMake files.

::

    set(CMAKE_CUDA_ARCHITECTURES 90a 100f)
    options.push_back("--gpu-architecture=compute_90a");

    CMakeLists.txt:12  passes sm_90 sm_100 sm_103

What is not in the list has no binary: nothing that is opened in the source can run there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.scan.draft import Draft, Finds, Nothing
from ungate.scan.patterns import pattern
from ungate.source.condition import Known
from ungate.source.cuda.archlist import archs_named
from ungate.source.cuda.file import CudaFile

__all__ = ["SAMPLES", "find"]

_STATEMENT = re.compile(r"^[ \t]*([A-Za-z_]\w*)[ \t]*\(((?:[^()#]|\([^()]*\))*)\)", re.MULTILINE)
_LIST = re.compile(
    r"(?i)\b\w*CUDA_ARCHITECTURES\b|\bTORCH_CUDA_ARCH_LIST\b|\b\w*(?:CUDA|SM|GPU)\w*_ARCHS?\b|\b\w*_ARCHS\b"
)
_FLAG = re.compile(r"(?:compute_|sm_)\d{2,3}[af]?\b")
_IN_CODE = re.compile(r"\"[^\"\n]*(?:-arch[= ]|gpu-architecture[= ]|arch=)(?:compute_|sm_)\d{2,3}[af]?[^\"\n]*\"")


@pattern("cuda-gencode", kind="gencode-flag", language="cuda", rank=40)
def find(file: CudaFile) -> Iterator[Draft]:
    """Every CMake statement and every string of flags that names architectures."""
    if not file.host:
        return
    if file.file.endswith((".cmake", "CMakeLists.txt", ".cmake.in")):
        for statement in _STATEMENT.finditer(file.text):
            inside = re.sub(r"#[^\n]*", "", statement.group(2))
            listed = _LIST.search(inside) is not None
            if not listed and not _FLAG.search(inside):
                continue
            archs = archs_named(inside, bare=listed)
            if archs:
                yield _draft(file, statement.start(1), statement.end(), archs, "cmake")
        return
    for flags in _IN_CODE.finditer(file.text):
        if not file.reading.blocks.holds(flags.start()) and not _in_comment(file.text, flags.start()):
            yield _draft(file, flags.start(), flags.end(), archs_named(flags.group()), "gencode-flag")


def _in_comment(text: str, offset: int) -> bool:
    return "//" in text[text.rfind("\n", max(0, offset - 500), offset) + 1 : offset]


def _draft(file: CudaFile, start: int, end: int, archs: frozenset[int], kind: str) -> Draft:
    return Draft(
        line=file.line(start),
        end_line=file.line(end - 1),
        condition=Known(archs),
        text=" ".join(file.text[start:end].split())[:200],
        role="define",
        span=(start, end),
        symbol=file.symbol(start) if kind == "gencode-flag" else "",
        kind=kind,
        note="a build list: what is not in it has no binary",
    )


SAMPLES = (
    Nothing("made-at-run-time", 'auto flag = "-arch=sm_" + std::to_string(sm);  // compute_cap\n'),
    Finds("nvrtc-option", 'void f() {\n  o.push_back("--gpu-architecture=compute_90a");\n}\n', {2: (90,)}),
)
