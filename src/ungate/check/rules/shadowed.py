"""A prebuilt binary that would be loaded instead of the edited source.

FlashInfer looks for a module in ``flashinfer-jit-cache`` before it compiles one; a wheel that holds shared objects
loads those. An edit of the source then changes nothing that runs.

As printed::

    warning  flashinfer_jit_cache holds 214 compiled modules that are loaded before anything is compiled
"""

from __future__ import annotations

from collections.abc import Iterator

from ungate.check.question import Question
from ungate.host.packages import Package
from ungate.model import Finding

__all__ = ["find"]

_STANDS_IN = {"flashinfer": ("flashinfer_jit_cache", "flashinfer_cubin")}
"""Which top-level packages answer for another one's sources, by the library's own lookup order."""
_SHOWN = 3


def find(question: Question) -> Iterator[Finding]:
    """One warning for each package of binaries that stands before a file which would be edited."""
    # An opened list of a module's build changes what would be compiled as well, and is Python.
    edited = {
        gate.file
        for hop in question.hops
        for gate in hop.gates
        if gate.id in question.opened and (hop.kind == "jit-module" or not gate.file.endswith(".py"))
    }
    native = sorted(edited)
    for package in question.packages:
        own = [file for file in native if file.split("/", 1)[0] in package.tops]
        if not own:
            continue
        yield from _beside(package)
        objects = sorted(path for folder in package.folders for path in folder.rglob("*.so"))
        if objects:
            listed = ", ".join(path.name for path in objects[:_SHOWN])
            yield Finding(
                rule="shadowed",
                severity="warning",
                what=f"{package.name} ships {len(objects)} shared objects ({listed}); what they were compiled from is "
                "not compiled again when the source is edited",
                advice="Prove what runs: ungate build FEATURE names the object that would be loaded.",
                confidence="medium",
                file=own[0],
            )


def _beside(package: Package) -> Iterator[Finding]:
    for top in package.tops:
        for name in _STANDS_IN.get(top, ()):
            folder = package.root / name
            if folder.is_dir():
                count = sum(1 for path in folder.rglob("*") if path.suffix in {".so", ".cubin"})
                yield Finding(
                    rule="shadowed",
                    severity="warning",
                    what=f"{name} holds {count} compiled modules that are loaded before anything is compiled",
                    advice=f"Leave it out of the arm's environment, or the edit of {package.name} has no effect.",
                    evidence=str(folder),
                )
