"""Operations that are registered, and whose binary holds no code for the target.

Tests of a symbol and of a minimum capability pass, and the first launch fails with "no kernel image". A library holds
an image a translation unit, so that one unit may lack what another has. Without machine code for the target there
may still be PTX of an older architecture, which the driver compiles when it is loaded.

As printed::

    danger   _flashmla_C.abi3.so holds sm_90a sm_100f and nothing that sm_120 can run
    warning  22 of 82 translation units of _C.abi3.so hold nothing that sm_120 can run
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ungate.check.question import Question
from ungate.host.images import Image, runs, units
from ungate.model import Finding, Reached

__all__ = ["find"]

_STANDS_IN = {"flashinfer": "flashinfer_jit_cache"}
_MODULE = re.compile(r"builds the module (\w+)")


def find(question: Question) -> Iterator[Finding]:
    """One finding for each library on the way, or that stands in for a module on the way, which lacks the target."""
    for library, file, blocked in _libraries(question):
        found = units(library)
        if found:
            top = file.partition("/")[0]
            instead = top.replace("_", "-") if top in _STANDS_IN.values() else ""
            yield from _told(question, file, [unit for unit in found if unit], blocked, instead)


def _libraries(question: Question) -> Iterator[tuple[Path, str, bool]]:
    """(library, its name in findings, whether the chain itself says that it is of no use)."""
    seen: set[str] = set()
    for hop in question.chain.hops:
        if hop.file.endswith(".so") and hop.file not in seen and (path := question.path(hop.file)) is not None:
            seen.add(hop.file)
            yield path, hop.file, bool(hop.blocker)
    modules = {name for hop in question.chain.hops for name in _MODULE.findall(hop.note)}
    for package in question.packages:
        for top in package.tops:
            folder = package.root / _STANDS_IN.get(top, "")
            for name in sorted(modules) if top in _STANDS_IN and folder.is_dir() else ():
                for path in sorted(folder.glob(f"**/{name}/{name}.so")):
                    yield path, path.relative_to(package.root).as_posix(), False


def _told(
    question: Question, file: str, found: list[frozenset[Image]], blocked: bool, instead: str
) -> Iterator[Finding]:
    target, name = question.target, file.rpartition("/")[2]
    lacking = [unit for unit in found if not any(runs(image, target.number) for image in unit)]
    whole = bool(found) and len(lacking) == len(found)
    if lacking and not (whole and blocked):
        held = " ".join(str(image) for image in sorted(frozenset().union(*found)))
        yield Finding(
            rule="unbuilt",
            severity="danger" if whole else "warning",
            what=f"{name} holds {held} and nothing that {target} can run"
            if whole
            else f"{len(lacking)} of {len(found)} translation units of {name} hold nothing that {target} can run",
            advice=f"It is loaded instead of compiling the module, whatever gate is opened: pip uninstall {instead}"
            if whole and instead
            else "What it registers passes a test of its symbol and fails at the first launch. Look for a wheel with "
            "this architecture, or compile the module from source."
            if whole
            else "A kernel that is in one of them fails at the first launch: run one request before it is trusted.",
            evidence=f"it holds {held}" if not whole else "",
            confidence="high" if whole else "low",  # which unit the feature's kernel is in is not known
            file=file,
            reached=Reached.YES,
        )
    compiled = [unit for unit in found if unit not in lacking and all(i.ptx for i in unit if runs(i, target.number))]
    if compiled:
        yield Finding(
            rule="unbuilt",
            severity="note",
            what=f"{len(compiled)} of {len(found)} translation units of {name} have no machine code for {target}; the "
            "driver compiles PTX of an older architecture for them",
            advice="A public report found wrong results under load until such kernels were built for the architecture "
            "(vllm-project/vllm#40923): check the outputs at more than one request at a time.",
            file=file,
            reached=Reached.YES,
        )
