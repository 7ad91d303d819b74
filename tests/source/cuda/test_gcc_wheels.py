"""Every conditional group of FlashInfer 0.6.3 that a preprocessor can decide alone, decided by gcc -E."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ungate.host.index import fetch
from ungate.model import KNOWN_ARCHS
from ungate.source.condition import passing
from ungate.source.cuda.conditions import Conditions
from ungate.source.cuda.directives import Branch, Reading, read
from ungate.source.cuda.expression import identifiers, parse
from ungate.source.cuda.macros import TOOLKIT, condition_text
from ungate.source.cuda.targets import macros, most_specific, of_compiler

pytestmark = [
    pytest.mark.wheels,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to compare with"),
]
_SUFFIXES = {".cu", ".cuh", ".h", ".hpp", ".inl", ".inc"}


def _alone(reading: Reading, group: tuple[Branch, ...]) -> bool:
    """Whether every name in the group's conditions is the compiler's, and one of them the architecture."""
    read_names: set[str] = set()
    for branch in group:
        if branch.directive.keyword != "else":
            read_names |= identifiers(parse(condition_text(branch)))
    return any(of_compiler(name) for name in read_names) and all(
        of_compiler(name) or name in TOOLKIT for name in read_names
    )


def test_every_group_that_gcc_decides_alone(tmp_path: Path) -> None:
    root = fetch("flashinfer-python==0.6.3") / "flashinfer" / "data"
    conditions = Conditions()
    lines: list[str] = []
    expected: dict[int, frozenset[int]] = {}
    for file in sorted(path for path in root.rglob("*") if path.suffix in _SUFFIXES):
        text = file.read_bytes().decode("latin-1")
        if "__CUDA_ARCH" not in text:
            continue
        reading = read(text)
        for branch in reading.branches:
            group = reading.group(branch)
            if branch.earlier or not _alone(reading, group):
                continue
            remaining = frozenset(KNOWN_ARCHS)
            for each in group:
                passes = remaining
                if each.directive.keyword != "else":
                    judged = passing(conditions.judge(condition_text(each)).tree)
                    assert judged.decided, (file, each.directive.line)
                    passes = remaining & judged.yes
                expected[len(expected)] = passes
                remaining -= passes
                lines.append(text[each.directive.start : each.directive.end])
                lines.append(f"keep {len(expected) - 1}")
            lines.append("#endif")
    assert len(expected) > 1000
    source = tmp_path / "groups.cc"
    source.write_bytes(("\n".join(lines) + "\n").encode("latin-1"))
    kept: dict[int, set[int]] = {}
    for arch in KNOWN_ARCHS:
        defines = {**TOOLKIT, **macros(most_specific(arch))}
        command = ["gcc", "-E", "-P", "-w", "-x", "c++", *(f"-D{name}={value}" for name, value in defines.items())]
        done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=True, timeout=120)
        for number in re.findall(r"keep (\d+)", done.stdout):
            kept.setdefault(int(number), set()).add(arch)
    for number, passes in expected.items():
        assert passes == frozenset(kept.get(number, set())), number
