"""Calls of what was compiled ahead of time: which binary holds the operator, and for which architectures."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

from ungate.host.images import Image, images, runs
from ungate.model import Hop, Target
from ungate.trace.corpus import Corpus
from ungate.trace.jit import Step

__all__ = ["Binaries", "held", "named"]


class Binaries:
    """The shared libraries of the packages under trace, looked into when a call leads there."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._images: dict[str, frozenset[Image] | None] = {}

    def hops(self, step: Step, target: Target, meant: str = "") -> tuple[Hop, ...]:
        """One hop a binary that holds what the step calls; one that is not verified where none of them does. ``meant``
        is what the call stands for, where its text alone does not say it."""
        text = step.use.text
        name = _operator(text)
        found = self.holding(name) if name else ()
        if not found:
            note = "compiled ahead of time and not among these packages: for which architectures is not known"
            return (Hop("kernel", "", 0, meant or text, None, note=note),)
        return tuple(self._hop(file, text, target) for file in found)

    def holding(self, name: str) -> tuple[str, ...]:
        """The libraries in whose data the schema of an operator (``name(``) stands, those with GPU code first."""
        needle = name.encode() + b"("
        found = [
            file for file in self.corpus.native if file.endswith(".so") and _holds(self.corpus.native[file], needle)
        ]
        return tuple(file for file in found if self.images(file)) or tuple(found)

    def images(self, file: str) -> frozenset[Image] | None:
        if file not in self._images:
            self._images[file] = images(self.corpus.native[file])
        return self._images[file]

    def told(self, file: str, target: Target) -> tuple[str, str]:
        """What one of the libraries holds, and why that is terminal for the target or nothing."""
        return held(self.images(file), target)

    def _hop(self, file: str, text: str, target: Target) -> Hop:
        note, blocker = self.told(file, target)
        return Hop("kernel", file, 0, text, True, note=note, blocker=blocker)


def held(found: frozenset[Image] | None, target: Target) -> tuple[str, str]:
    """(what a binary holds, why that is terminal for the target or nothing), in words."""
    if found is None:
        return "compiled ahead of time; the binary could not be read", ""
    if not found:
        return "compiled ahead of time; the binary holds no GPU code of its own", ""
    if any(runs(image, target.number) for image in found):
        usable = sorted(image for image in found if runs(image, target.number))
        return f"compiled ahead of time; holds {named(usable)} for {target}, though perhaps not of every kernel", ""
    note = f"compiled ahead of time for {named(sorted(found))}"
    return note, f"the binary holds {named(sorted(found))} and nothing that {target} can run"


def named(found: Sequence[Image]) -> str:
    """The images as one line of names: ``sm_80 sm_90a compute_90``."""
    return " ".join(str(image) for image in found)


def _operator(text: str) -> str:
    """The operator in ``torch.ops.space.name.default``; empty for a function of another package."""
    parts = text.split(".")
    return parts[3].rstrip("()[]") if parts[:2] == ["torch", "ops"] and len(parts) > 3 else ""


def _holds(path: Path, needle: bytes) -> bool:
    try:
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as text:
            return text.find(b"\0" + needle) >= 0
    except (OSError, ValueError):
        return False
