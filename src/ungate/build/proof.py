"""What the kernels of a build prove: which have a body, what has changed since, and what is empty only here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from ungate.build.demangle import family
from ungate.build.sass import Effect, Image, Kernel
from ungate.errors import shell
from ungate.model import Artifact, Finding
from ungate.plain import counted

__all__ = ["Family", "artifact", "changes", "emptied", "families", "hollow", "shadowed"]


@dataclass(frozen=True, slots=True)
class Family:
    """The instantiations of one kernel template, the limits being the highest of them.

    ``spills`` counts those that spill registers to memory, None where the compiler was not asked; ``registers``,
    ``shared`` and ``stack`` are None where they are not known for any instantiation.
    """

    name: str
    kernels: int
    hollow: int
    traps: int
    unknown: int
    registers: int | None
    shared: int | None
    stack: int | None
    spills: int | None

    @property
    def present(self) -> int:
        return self.kernels - self.hollow - self.traps - self.unknown


def _highest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def families(image: Image, spilled: Mapping[str, tuple[int, int]] | None = None) -> tuple[Family, ...]:
    """The kernels of an image by what the source calls them; those with the most hollow ones first.

    ``spilled`` maps a kernel to bytes stored to and loaded from local memory, as ptxas told while compiling.
    """

    def summed(name: str, kernels: list[Kernel]) -> Family:
        def count(effect: Effect) -> int:
            return sum(kernel.effect is effect for kernel in kernels)

        return Family(
            name=name,
            kernels=len(kernels),
            hollow=count(Effect.HOLLOW),
            traps=count(Effect.TRAPS),
            unknown=count(Effect.UNKNOWN),
            registers=_highest(kernel.registers for kernel in kernels),
            shared=_highest(kernel.shared for kernel in kernels),
            stack=_highest(kernel.stack for kernel in kernels),
            spills=sum(any(spilled.get(kernel.name, (0, 0))) for kernel in kernels) if spilled else None,
        )

    named = sorted(image.kernels, key=lambda kernel: family(kernel.title))
    found = [summed(name, list(kernels)) for name, kernels in groupby(named, key=lambda k: family(k.title))]
    return tuple(sorted(found, key=lambda one: (-one.hollow, -one.traps, -one.kernels, one.name)))


def artifact(path: Path, images: Sequence[Image], target: str, seconds: float) -> Artifact:
    """The record of one binary: how many kernels it holds for the target, and how many of them are hollow.

    A bare target (``sm_120``) is also met by an image with a suffix (``sm_120a``), which is what packages build.
    """
    chosen = [image for image in images if target in {image.arch, image.arch.rstrip("af")}]
    if not chosen:
        others = ", ".join(sorted({image.arch for image in images}))
        return Artifact(path, target, 0, None, seconds, f"it holds no code for {target}, only for {others}")
    names = {one.name.rpartition("::")[2]: one.hollow for image in chosen for one in families(image) if one.hollow}
    note = ", ".join(f"{count} x {name}" for name, count in names.items())
    kernels = sum(len(image.kernels) for image in chosen)
    count = sum(image.counted(Effect.HOLLOW) for image in chosen)
    return Artifact(path, target, kernels, count, seconds, f"hollow: {note}" if note else "")


def hollow(image: Image, advice: str, reference: Image | None = None) -> tuple[Finding, ...]:
    """A finding for each family with kernels that have no body, and one for those that do nothing but trap.

    ``reference`` is the same source compiled for an architecture it was written for: what has no body there either is
    empty by design, and only a note.
    """
    found = []
    if reference is not None:
        lost = {kernel.name for kernel in emptied(image, reference)}
        meant = [kernel for kernel in image.kernels if kernel.effect is Effect.HOLLOW and kernel.name not in lost]
        if meant:
            found.append(
                Finding(
                    rule="empty-by-design",
                    severity="note",
                    what=f"{_have(len(meant), 'kernel')} no body for {reference.arch} either, such as "
                    f"{family(meant[0].title)}.",
                    advice="Nothing is to be done about these.",
                )
            )
            image = replace(image, kernels=tuple(kernel for kernel in image.kernels if kernel not in meant))
    for one in families(image):
        part = f"all {one.kernels}" if one.hollow == one.kernels else f"{one.hollow} of {one.kernels}"
        which = f"{one.name} has" if one.kernels == 1 else f"{part} kernels of {one.name} have"
        if one.hollow:
            found.append(
                Finding(
                    rule="hollow-binary",
                    severity="terminal",
                    what=f"{which} no body for {image.arch}: launched, it stores nothing and reports no error.",
                    evidence=f"no store, atomic or trap in the machine code of {image.path.name} ({image.made_by})",
                    advice=advice,
                )
            )
        if one.traps:
            found.append(
                Finding(
                    rule="trapping-binary",
                    severity="danger",
                    what=f"{one.traps} of {one.kernels} kernels of {one.name} only trap or assert on {image.arch}.",
                    evidence=f"a trap and no store in the machine code of {image.path.name} ({image.made_by})",
                    advice=advice,
                )
            )
    return tuple(found)


def _have(number: int, noun: str) -> str:
    return f"{counted(number, noun)} {'has' if number == 1 else 'have'}"


def shadowed(library: Path, held: Sequence[str] | None, target: str, package: str, owner: str) -> Finding:
    """The finding that a package loads a prebuilt library and never compiles the sources that an edit changes.

    ``owner`` is the distribution that brought the library, empty where that is not known.
    """
    if held is None:
        holds = "what it holds code for is not known"
    else:
        reach = "" if target in held else f", not for {target}"
        holds = f"it holds code for {' '.join(held) or 'no GPU'}{reach}"
    if owner and owner != package:
        advice = f"Take the prebuilt modules out of the serving environment: pip uninstall {owner}"
    elif owner:
        advice = f"{owner} brings it itself; build {owner} from its sources with the edits: ungate patch export RECIPE"
    else:
        advice = f"See whose it is, then take it out of the serving environment: ls -l {shell(library)}"
    return Finding(
        rule="prebuilt-library",
        severity="danger",
        what=f"{package} loads the prebuilt {library.name} instead of compiling these sources; no edit reaches it.",
        evidence=f"{library}: {holds}",
        advice=advice,
        file=str(library),
    )


def changes(before: Image, after: Image) -> tuple[Finding, ...]:
    """What an edit did to the binary. No difference at all means that the build is stale: the edit was not compiled."""
    old = {kernel.name: kernel for kernel in before.kernels}
    new = {kernel.name: kernel for kernel in after.kernels}
    if old and {n: k.digest for n, k in old.items()} == {n: k.digest for n, k in new.items()}:
        return (
            Finding(
                rule="identical-binary",
                severity="terminal",
                what=f"No kernel of {after.path.name} has other machine code than before the edit.",
                evidence=f"{counted(len(new), 'kernel')} compared with {before.path}",
                advice="The edit was not compiled. See which entries are stale: ungate cache ls",
            ),
        )
    both = [(old[name], kernel) for name, kernel in new.items() if name in old]
    lost = [now for was, now in both if was.effect is Effect.PRESENT and now.effect is not Effect.PRESENT]
    filled = [now for was, now in both if was.effect is Effect.HOLLOW and now.effect is Effect.PRESENT]
    found = []
    if lost:
        found.append(
            Finding(
                rule="lost-body",
                severity="terminal",
                what=f"{counted(len(lost), 'kernel')} had a body before the edit and not after it, "
                f"such as {family(lost[0].title)}.",
                advice="Take the edit back: ungate patch pop",
            )
        )
    if filled:
        found.append(
            Finding(
                rule="gained-body",
                severity="note",
                what=f"{_have(len(filled), 'hollow kernel')} a body now, such as {family(filled[0].title)}.",
                advice="A body is not yet a right result: the correctness ladder comes next.",
            )
        )
    return tuple(found)


def emptied(image: Image, reference: Image) -> tuple[Kernel, ...]:
    """Kernels that are hollow in ``image`` and have a body in ``reference``: empty for this target, not by design."""
    there = {kernel.name for kernel in reference.kernels if kernel.effect is Effect.PRESENT}
    return tuple(kernel for kernel in image.kernels if kernel.effect is Effect.HOLLOW and kernel.name in there)
