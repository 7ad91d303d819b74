"""Functions of the toolkit that its headers do not declare for the target, in code that opening brings in.

nvcc itself is asked. A name counts that is declared for an architecture which the gate lets through today and not for
the target; what is declared for neither is not the toolkit's. Headers declare a function from an architecture on: nvcc
is asked only where the target is older than one of those.

As printed::

    danger  k calls __cluster_barrier_arrive, which the toolkit declares for sm_90a and not for sm_89
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ungate.check.emerging import Emerging, emerging_files
from ungate.check.question import Question
from ungate.errors import Refusal
from ungate.host import declarations
from ungate.model import Finding, Reached, Target
from ungate.source.cuda.comments import blank

__all__ = ["find"]

_CALL = re.compile(r"(?<![\w.:>])(?P<name>__[a-z]\w+|cuda[A-Z]\w+)\s*\(")
_NO_CALLS = frozenset(("__launch_bounds__", "__attribute__", "__align__", "__declspec", "__cluster_dims__"))
_SHOWN = 4
_ARCH_SPECIFIC = 90


def find(question: Question) -> Iterator[Finding]:
    """One finding a file; nothing without a toolkit, which the rule on instructions tells."""
    if not declarations.available():
        return
    called = [(each, found) for each in emerging_files(question) if _older(question, each) and (found := _called(each))]
    names = sorted({name for _, found in called for name in found})
    if not names:
        return
    try:
        here = declarations.declared(names, question.target)
        if here is None or not (missing := [name for name in names if name not in here]):
            return
        passing = sorted({arch for each, _ in called for gate in each.gates for arch in gate.passes.yes})
        for arch in reversed([arch for arch in passing if arch != question.target.number] or [90]):
            reference = Target(arch, "a" if arch >= _ARCH_SPECIFIC else "")
            there = declarations.declared(missing, reference)
            if there:
                for each, found in called:
                    yield from _told(question, each, {name: found[name] for name in found if name in there}, reference)
                missing = [name for name in missing if name not in there]
            if not missing:
                return
    except Refusal as refusal:  # a toolkit without its headers says nothing about the target
        yield Finding(
            "intrinsics", "note", f"the toolkit's declarations could not be read: {refusal.what}", refusal.next_step
        )


def _older(question: Question, each: Emerging) -> bool:
    return any(arch > question.target.number for gate in each.gates for arch in gate.passes.yes)


def _called(each: Emerging) -> dict[str, int]:
    """Names that are called in newly compiled code and not defined in the file, with the offset of the first call."""
    code = blank(each.code.text)
    own = {function.name for function in each.code.functions}
    found: dict[str, int] = {}
    for call in _CALL.finditer(code):
        name = call["name"]
        if name not in found and name not in _NO_CALLS and name not in own and each.holds(call.start()):
            found[name] = call.start()
    return found


def _told(question: Question, each: Emerging, names: dict[str, int], reference: Target) -> Iterator[Finding]:
    if not names:
        return
    first = min(names.values())
    at = next((item for item in each.code.functions if item.start <= first < item.end), None)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    yield Finding(
        rule="intrinsics",
        severity="danger" if at is not None and at.kernel else "warning",
        what=f"{at.name if at else each.code.file.rpartition('/')[2]} calls {', '.join(list(names)[:_SHOWN])}{more}, "
        f"which the toolkit declares for {reference} and not for {question.target}",
        advice="Leave the gate closed, or open it where the code does not call it: what calls it does not compile.",
        evidence="nvcc: a using-declaration of each name, compiled for both",
        confidence="high" if at is not None and at.kernel else "medium",
        file=each.code.file,
        line=each.code.line(first),
        reached=next((gate.reached for gate in each.gates if gate.reached), None) or Reached.UNKNOWN,
    )
