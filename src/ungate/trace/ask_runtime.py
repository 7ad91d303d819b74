"""Answers to the texts that the CUDA runtime and its compilers print: what they mean, which binaries at hand hold
nothing for the target, and what to do next."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ungate.host.images import images
from ungate.model import Chain, Hop, Target
from ungate.plain import counted
from ungate.trace.ahead import held
from ungate.trace.runtime_errors import known

__all__ = ["of_runtime", "rest_of"]

_SUFFIXES = (".so", ".cubin")
_MOST_NAMED = 20
_MOST_FILES = 20_000


def of_runtime(text: str, roots: Sequence[Path], target: Target) -> Chain | None:
    """The answer to an error of the runtime, None for any other text. ``roots`` are the folders of packages whose
    binaries are looked into where they decide."""
    error = known(text)
    if error is None:
        return None
    hops, notes = _binaries(roots, target) if error.images else ((), ())
    means = f"{error.name}: {error.means}."
    steps = tuple(f"{step.replace('TARGET', str(target))}." for step in error.steps)
    return Chain(text, target, hops, (), (means, *notes, *steps))


def rest_of(text: str) -> str:
    """What a message says beside the runtime's own words, empty where it is too little to be looked for."""
    error = known(text)
    rest = error.pattern.sub(" ", text) if error is not None else text
    for word in ("CUDA error", "RuntimeError", "torch.AcceleratorError", "for execution on the device", "encountered"):
        rest = rest.replace(word, " ")
    return " ".join(rest.split()) if len([word for word in rest.split() if word.isalpha()]) >= 3 else ""


def _binaries(roots: Sequence[Path], target: Target) -> tuple[tuple[Hop, ...], tuple[str, ...]]:
    """(a hop for each file that holds GPU code and none for the target, what else is to be said)."""
    lacking: list[Hop] = []
    cubins: dict[str, list[int]] = {}
    fine = lost = 0
    for file, path in _files(roots):
        found = images(path)
        if found is None:
            lost += 1
        elif file.endswith(".cubin"):
            cubins.setdefault(file.rpartition("/")[0], []).extend(image.arch for image in found)
        elif found:
            note, blocker = held(found, target)
            fine += not blocker
            if blocker:
                lacking.append(Hop("kernel", file, 0, file.rpartition("/")[2], True, note=note, blocker=blocker))
    for folder, archs in cubins.items():
        if any(arch // 10 == target.major for arch in archs):
            fine += 1
            continue
        told = " ".join(f"sm_{arch}" for arch in sorted(set(archs)))
        blocker = f"its {len(archs)} cubins are for {told}, and {target} can run none of them"
        lacking.append(Hop("kernel", folder, 0, folder.rpartition("/")[2], True, blocker=blocker))
    where = ", ".join(str(root) for root in roots)
    others = counted(fine, "more binary", "more binaries")
    notes = [f"{target} can run code of {others} under {where}, though perhaps not of every kernel."]
    if not lacking and not fine:
        notes = [
            f"No binary under {where} holds GPU code, so that what ran was compiled when it was used, or is installed "
            "elsewhere: name the environment that serves with --python PATH or --site DIR."
        ]
    if lost:
        notes.append(f"{counted(lost, 'binary', 'binaries')} could not be read.")
    if len(lacking) > _MOST_NAMED:
        others = counted(len(lacking) - _MOST_NAMED, "more binary", "more binaries")
        notes.append(f"There is nothing for {target} in {others}.")
    return tuple(lacking[:_MOST_NAMED]), tuple(notes)


def _files(roots: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    count = 0
    for root in roots:
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                if name.endswith(_SUFFIXES) or ".so." in name:
                    count += 1
                    if count > _MOST_FILES:
                        return
                    path = Path(folder, name)
                    yield path.relative_to(root).as_posix(), path
