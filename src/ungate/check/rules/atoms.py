"""CuTe's instruction atoms whose instructions the target lacks: ``SM100_MMA_F16BF16_SS`` is ``tcgen05.mma`` inside.

The atoms are structures of CUTLASS's headers with inline PTX, which come with the package. ptxas is asked about that
PTX, as in the rule on instructions: it must refuse it for the target and assemble it for one that is let through.

As printed::

    danger  tgv_gemm.cuh uses SM100_MMA_F16BF16_SS, whose PTX does not assemble for sm_120a: Instruction 'tcgen05.mma' …
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ungate.check.emerging import Emerging, emerging_files
from ungate.check.question import Question
from ungate.host import assembler
from ungate.model import Finding, Reached, Target
from ungate.source.cuda.assembly import assemblies, entries
from ungate.source.cuda.comments import blank

__all__ = ["find"]

_ATOM = re.compile(r"\bSM\d{2,3}_[A-Z0-9]\w*")
_STRUCT = re.compile(r"^struct\s+(SM\d{2,3}_\w+)[^;{]*\{", re.MULTILINE)
_PLACES = ("data/cutlass/include/cute/arch", "3rdparty/cutlass/include/cute/arch", "include/cute/arch")
_SHOWN = 4
_ARCH_SPECIFIC = 90


def find(question: Question) -> Iterator[Finding]:
    """One finding a file that uses such atoms; nothing without a ptxas, which the rule on instructions tells."""
    if not assembler.available():
        return
    used = [(each, names) for each in emerging_files(question) if (names := _used(each))]
    if not used:
        return
    pieces = _pieces(question, {name for _, names in used for name in names})
    lacking = _refused(pieces, question.target)
    if not lacking:
        return
    for each, names in used:
        mine = [name for name in names if name in lacking]
        passing = sorted({arch for gate in each.gates for arch in gate.passes.yes} - {question.target.number})
        elsewhere: set[str] = set()
        for arch in passing:
            reference = Target(arch, "a" if arch >= _ARCH_SPECIFIC else "")
            there = _refused({name: pieces[name] for name in mine}, reference)
            elsewhere |= set() if there is None else {name for name in mine if name not in there}
        if real := [name for name in mine if name in elsewhere]:
            yield _finding(question, each, names, real, lacking)


def _used(each: Emerging) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in _ATOM.finditer(blank(each.code.text)) if "SM" in each.code.text else ():
        if name[0] not in found and each.holds(name.start()):
            found[name[0]] = name.start()
    return found


def _pieces(question: Question, names: set[str]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """For each atom that a package's CuTe defines, the PTX entries of each of its statements."""
    found: dict[str, tuple[tuple[str, ...], ...]] = {}
    for folder in _folders(question):
        for file in sorted(folder.glob("*.hpp")):
            text = file.read_bytes().decode("latin-1")
            for struct in _STRUCT.finditer(text):
                if struct[1] in names and struct[1] not in found:
                    end = text.find("\n};", struct.end())
                    inside = assemblies(text, struct.end(), end if end > 0 else len(text))
                    found[struct[1]] = tuple(forms for each in inside if (forms := entries(each)))
    return found


def _folders(question: Question) -> Iterator[Path]:
    for package in question.packages:
        for top in package.tops:
            for place in _PLACES:
                if (package.root / top / place).is_dir():
                    yield package.root / top / place


def _refused(pieces: Mapping[str, tuple[tuple[str, ...], ...]], target: Target) -> dict[str, str] | None:
    """The atoms of which no statement assembles, with what ptxas says; None for a target that it does not know."""
    flat = [form for statements in pieces.values() for forms in statements for form in forms]
    answers = assembler.refusals(flat, target)
    if answers is None:
        return None
    said = dict(zip(flat, answers, strict=True))
    return {
        name: str(said[statements[0][0]])
        for name, statements in pieces.items()
        if statements and all(said[form] is not None for forms in statements for form in forms)
    }


def _finding(
    question: Question, each: Emerging, names: Mapping[str, int], real: list[str], said: Mapping[str, str]
) -> Finding:
    more = f" and {len(real) - _SHOWN} more" if len(real) > _SHOWN else ""
    return Finding(
        rule="atoms",
        severity="danger",
        what=f"{each.code.file.rpartition('/')[2]} uses {', '.join(real[:_SHOWN])}{more}, whose PTX does not assemble "
        f"for {question.target}: {said[real[0]].split('; ')[0]}",
        advice="Leave the gate closed: what is compiled for this target stops at its first use, and no edit gives it "
        "the instruction.",
        evidence="; ".join(f"{name}: {said[name].split('; ')[0]}" for name in real[:_SHOWN]),
        confidence="medium",  # a dispatch in the same file may choose others for this target
        file=each.code.file,
        line=each.code.line(names[real[0]]),
        reached=next((gate.reached for gate in each.gates if gate.reached), None) or Reached.UNKNOWN,
    )
