"""Inline PTX that the target lacks, in code that is compiled for it only because a gate is opened.

ptxas itself is asked, for each statement: it must refuse it for the target and assemble it for an architecture that the
gate lets through today. What it refuses everywhere was not understood, and is not held against the target.

As printed::

    danger  2 kernels would not assemble for sm_120a: Instruction 'tcgen05.alloc' not supported on .target 'sm_120a'
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ungate.check.emerging import Emerging, emerging_files
from ungate.check.question import Question
from ungate.host import assembler
from ungate.model import Finding, Reached, Target
from ungate.source.cuda.assembly import Assembly, assemblies, entries

__all__ = ["find"]

_SHOWN = 4
_ARCH_SPECIFIC = 90  # from here on "a" targets exist


@dataclass(frozen=True, slots=True)
class _Statement:
    found: Assembly
    pieces: tuple[str, ...]
    function: str
    kernel: bool
    line: int


def find(question: Question) -> Iterator[Finding]:
    """One finding a file for its kernels, one for its other functions, and a note where there is no ptxas to ask."""
    files = [(each, statements) for each in emerging_files(question) if (statements := tuple(_statements(each)))]
    if not files:
        return
    count = sum(len(statements) for _, statements in files)
    if not assembler.available():
        yield _unknown(question, count, "there is no ptxas here", "Get one and ask again: pip install")
        return
    if _refused(files[0][1][:1], question.target) is None:
        yield _unknown(question, count, "this ptxas does not know it", "Get a newer one: pip install -U")
        return
    for each, statements in files:
        yield from _in_file(question, each, statements)


def _unknown(question: Question, count: int, why: str, advice: str) -> Finding:
    return Finding(
        rule="instructions",
        severity="note",
        what=f"whether {question.target} has the instructions of {count} pieces of inline PTX is not known: {why}",
        advice=f"{advice} 'ungate[toolchain]'",
    )


def _statements(each: Emerging) -> Iterator[_Statement]:
    code = each.code
    for found in assemblies(code.text):
        pieces = entries(found) if each.holds(found.start) else ()
        if pieces:
            at = next((item for item in code.functions if item.start <= found.start < item.end), None)
            line = code.line(found.start)
            yield _Statement(found, pieces, at.name if at else "", at.kernel if at else False, line)


def _in_file(question: Question, each: Emerging, statements: Sequence[_Statement]) -> Iterator[Finding]:
    refused = _refused(statements, question.target)
    if not refused:
        return
    passing = sorted({arch for gate in each.gates for arch in gate.passes.yes} - {question.target.number}) or [90, 100]
    for arch in passing:
        reference = Target(arch, "a" if arch >= _ARCH_SPECIFIC else "")
        unknown = _refused([statement for statement, _ in refused], reference)
        if unknown is None:
            continue
        yield from _told(question, each, [pair for pair in refused if not _among(pair[0], unknown)], reference)
        refused = [pair for pair in refused if _among(pair[0], unknown)]
        if not refused:
            return


def _among(statement: _Statement, refused: Sequence[tuple[_Statement, str]]) -> bool:
    return any(statement is other for other, _ in refused)


def _refused(statements: Sequence[_Statement], target: Target) -> list[tuple[_Statement, str]] | None:
    """Those that ptxas assembles in none of their forms, with what it says; None where it does not know the target."""
    left, said = list(statements), {}
    for form in range(max((len(statement.pieces) for statement in statements), default=0)):
        asked = [statement for statement in left if form < len(statement.pieces)]
        answers = assembler.refusals([statement.pieces[form] for statement in asked], target)
        if answers is None:
            return None
        for statement, answer in zip(asked, answers, strict=True):
            if answer is None:
                left = [other for other in left if other is not statement]
            elif form == 0:
                said[id(statement)] = answer
    return [(statement, said[id(statement)]) for statement in left]


def _told(
    question: Question, each: Emerging, refused: Sequence[tuple[_Statement, str]], reference: Target
) -> Iterator[Finding]:
    target = question.target
    for kernel in (True, False):
        pairs = [pair for pair in refused if pair[0].kernel is kernel]
        if not pairs:
            continue
        suffixed = [
            str(other)
            for other in (replace(target, suffix="a"), replace(target, suffix="f"))
            if not target.suffix
            and target.number >= _ARCH_SPECIFIC
            and _refused([statement for statement, _ in pairs], other) == []
        ]
        names = sorted({statement.function or "code outside of functions" for statement, _ in pairs})
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        quoted = "; ".join(dict.fromkeys(f"line {statement.line}: {text.split('; ')[0]}" for statement, text in pairs))
        yield Finding(
            rule="instructions",
            severity="note" if suffixed else "danger" if kernel else "warning",
            what=f"{', '.join(names[:_SHOWN])}{more} would not assemble for {target}, and does for {reference}: "
            f"{pairs[0][1].split('; ')[0]}",
            advice=f"Compile for {' or '.join(suffixed)}: there are these instructions."
            if suffixed
            else "Leave this gate closed for the target: no edit gives it the instruction."
            if kernel
            else "Make sure that nothing calls these functions for the target: the build fails if something does.",
            evidence=f"ptxas: {quoted[:600]}",
            confidence="high" if kernel else "medium",  # a function that nothing calls is not compiled
            file=each.code.file,
            line=pairs[0][0].line,
            end_line=pairs[-1][0].line,
            reached=next((gate.reached for gate in each.gates if gate.reached), None) or Reached.UNKNOWN,
        )
