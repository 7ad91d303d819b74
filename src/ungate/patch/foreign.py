"""A patch from elsewhere as a series: its paths are matched with installed files, its hunks applied strictly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ungate.errors import Refusal
from ungate.host.packages import Package, recorded
from ungate.model import Edit, Series, Target
from ungate.patch.content import digest, sha256
from ungate.patch.hunks import FilePatch, apply, edits_between, parse
from ungate.patch.transaction import safe

__all__ = ["Imported", "import_patch", "installed_name"]


@dataclass(frozen=True, slots=True)
class Imported:
    """``already`` names installed files in which the patch's changes stand already: they are not part of the series."""

    series: Series
    already: tuple[str, ...] = ()


def installed_name(path: str, packages: Sequence[Package]) -> tuple[Package, str]:
    """The installed file that a path of an upstream checkout stands for.

    The longest end of the path that exactly one RECORD row ends in: ``python/sglang/srt/server_args.py`` is
    ``sglang/srt/server_args.py``, ``include/flashinfer/x.cuh`` is ``flashinfer/data/include/flashinfer/x.cuh``.
    """
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\\" in path:
        raise Refusal(
            f"The patch names '{path}', which leads out of the packages; nothing was changed.",
            "Make the patch with paths below the packages' folder or the project: git diff > FILE.patch",
        )
    for start in range(len(pure.parts)):
        tail = "/".join(pure.parts[start:])
        if "/" not in tail and len(pure.parts) > 1:
            break
        hits = [(p, f) for p in packages for f in _files(p) if f == tail or f.endswith("/" + tail)]
        exact = [hit for hit in hits if hit[1] == tail]
        if len(exact or hits) == 1:
            return (exact or hits)[0]
        if len(hits) > 1:
            names = ", ".join(sorted(f for _, f in hits)[:3])
            raise Refusal(
                f"The patch names {path}, which may be any of {len(hits)} installed files ({names} …).",
                "Give the path as it is installed, or name the package with --site and a smaller folder.",
            )
    raise Refusal(
        f"The patch names {path}, and none of the installed packages has such a file.",
        "Name the environment that holds it: ungate patch import FILE --site DIR",
    )


def _files(package: Package) -> Sequence[str]:
    rows = tuple(recorded(package))
    if rows or not package.editable:
        return rows
    return [str(path.relative_to(package.root)) for top in package.folders for path in top.rglob("*") if path.is_file()]


def _already(data: bytes, patch: FilePatch) -> bool:
    try:
        apply(data, patch, reverse=True)
    except Refusal:
        return False
    return True


def import_patch(
    name: str, data: bytes, packages: Sequence[Package], *, target: Target | None = None, moved: bool = False
) -> Imported:
    """A series from a unified diff; Refusal, and no series, where one hunk does not fit."""
    edits: list[Edit] = []
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    already: list[str] = []
    for patch in parse(data):
        package, file = installed_name(patch.path, packages)
        if file in before or file in already:
            raise Refusal(f"Two files of the patch stand for {file}.", "Split the patch: git diff -- FILE > FILE.patch")
        content = safe(package.root, file).read_bytes()
        try:
            changed = apply(content, patch, moved=moved)
        except Refusal:
            if not _already(content, patch):
                raise
            already.append(file)
            continue
        edits += edits_between(file, content, changed, f"from the patch {name}")
        before[file], after[file] = sha256(content), sha256(changed)
    series = Series(name, target or Target(0), tuple(edits), before, after, (), digest(edits, before))
    return Imported(series, tuple(already))
