"""A step that no edit can open: a prebuilt binary, an instruction that the target lacks.

As printed::

    terminal  gen_module: the kernels are downloaded binaries for sm_100a  flashinfer/jit/x.py:12
"""

from __future__ import annotations

from collections.abc import Iterator

from ungate.check.question import Question
from ungate.model import Finding, Reached, Status

__all__ = ["find"]


def find(question: Question) -> Iterator[Finding]:
    """One terminal finding for each blocked hop; a note where the library's own list has the target."""
    for hop in question.chain.hops:
        if hop.blocker:
            own = [gate for gate in hop.gates if gate.passes.decided]
            served = bool(own) and all(gate.status(question.target) is Status.OPEN for gate in own)
            yield Finding(
                rule="blocked",
                severity="note" if served else "terminal",
                what=f"{hop.symbol or hop.file}: {hop.blocker}",
                advice="Its own list has this target, and what is downloaded may be headers alone: ungate build tells."
                if served
                else "No edit helps. Look for a release that brings it: ungate releases DIST --feature "
                f"{hop.symbol or 'NAME'} --target {question.target}",
                file=hop.file,
                line=hop.line,
                reached=Reached.YES,
            )
