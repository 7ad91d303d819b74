"""A private copy of the affected packages, first on the path, with JIT caches of its own.

The installed packages are read and never written. The same series gives the same folder, so that its compiled
modules are found again on the next start.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ungate.errors import Refusal
from ungate.host.packages import Package
from ungate.model import Series
from ungate.patch import caches
from ungate.patch.content import changed, sha256
from ungate.patch.copying import copy_trees

__all__ = ["Overlay", "create"]

_MANIFEST = "overlay.json"


@dataclass(frozen=True, slots=True)
class Overlay:
    """``root`` holds the edited packages; ``environment`` is what a process needs in addition to find them first.

    ``scripts`` holds the packages' console scripts, ``caches`` the JIT caches. ``made`` is False where an identical
    overlay stood there already.
    """

    root: Path
    environment: Mapping[str, str]
    scripts: Path
    caches: Path
    packages: tuple[Package, ...] = ()
    files: int = 0
    made: bool = True
    edited: tuple[str, ...] = field(default=())


def create(
    series: Series, packages: Sequence[Package], folder: Path, *, base: Mapping[str, str] | None = None
) -> Overlay:
    """Copy every package that the series edits below ``folder``, edit the copies, and say how to use them.

    Each edited file must have the sha256 that the series names, before and after; otherwise Refusal, and no overlay
    is left. ``base`` is the environment that a server starts from (default: this process's).
    """
    contents = changed(series, packages)
    affected = tuple(p for p in packages if any((p.root / file) == path for file, (path, _, _) in contents.items()))
    owners = tuple(p for p in affected if any(_owns(p, file) for file in contents)) or affected
    arm = folder.expanduser().absolute() / (series.digest[:16] or "empty")
    manifest = _manifest(series, owners)
    root = arm / "site"
    count, made = 0, False
    if not _stands(arm, manifest, series):
        count, made = _make(arm, owners, contents, manifest), True
    environment = caches.environment(arm / "cache", base)
    base = os.environ if base is None else base
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(root), base.get("PYTHONPATH", ""))))
    environment["PATH"] = os.pathsep.join(filter(None, (str(arm / "bin"), base.get("PATH", os.defpath))))
    moved = tuple(_moved(p, root) for p in owners)
    return Overlay(root, environment, arm / "bin", arm / "cache", moved, count, made, tuple(contents))


def _owns(package: Package, file: str) -> bool:
    return file.split("/", 1)[0] in package.tops


def _moved(package: Package, root: Path) -> Package:
    info = root / package.info.name if package.info else None
    return Package(package.name, package.version, root, package.tops, False, "ungate", info)


def _manifest(series: Series, packages: Sequence[Package]) -> dict[str, object]:
    rows = []
    for package in packages:
        record = package.info / "RECORD" if package.info else None
        known = sha256(record.read_bytes()) if record and record.is_file() and not package.editable else ""
        rows.append([package.name, package.version, str(package.root), known])
    return {"series": series.name, "digest": series.digest, "packages": rows}


def _stands(arm: Path, manifest: dict[str, object], series: Series) -> bool:
    """Whether the folder holds this very overlay, unchanged; an editable package may have changed unseen."""
    try:
        found = json.loads((arm / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    rows = manifest["packages"]
    if found != manifest or not all(row[-1] for row in rows):  # type: ignore[attr-defined]
        return False
    for file, expected in series.after.items():
        path = arm / "site" / file
        if not path.is_file() or sha256(path.read_bytes()) != expected:
            return False
    return True


def _settle(site: Path, info: Path, tops: Sequence[str]) -> None:
    """Have the copied metadata of an editable installation tell of the copy: what it says leads to the checkout."""
    (info / "direct_url.json").unlink(missing_ok=True)
    files = [path for top in (*tops, info.name) for path in sorted((site / top).rglob("*")) or (site / top,)]
    rows = [f'"{path.relative_to(site)}",,\n' for path in files if path.is_file()]
    (info / "RECORD").write_text("".join(rows), encoding="utf-8", errors="surrogateescape")


def _make(
    arm: Path,
    packages: Sequence[Package],
    contents: Mapping[str, tuple[Path, bytes, bytes]],
    manifest: dict[str, object],
) -> int:
    arm.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".making-", dir=arm))
    try:
        site, scripts = work / "site", work / "bin"
        site.mkdir()
        scripts.mkdir()
        pairs = [(path, site / path.name) for p in packages for path in (*p.folders, *filter(None, (p.info,)))]
        pairs += [(script, scripts / script.name) for p in packages for script in _scripts(p)]
        count = copy_trees(dict.fromkeys(pair for pair in pairs if pair[0].exists()))
        for package in packages:
            if package.editable and package.info is not None:
                _settle(site, site / package.info.name, package.tops)
        for file, (_, _, after) in contents.items():
            _edit(site, file, after)
        for name in ("site", "bin"):
            _swap(work / name, arm / name, work)
        (work / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        (work / _MANIFEST).replace(arm / _MANIFEST)
    except OSError as error:
        raise Refusal(
            f"The overlay at {arm} could not be made: {error}.",
            "Make room or choose another place: export UNGATE_CACHE_DIR=DIR",
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return count


def _edit(site: Path, file: str, after: bytes) -> None:
    path = site / file
    for folder in path.relative_to(site).parents:
        if (site / folder).is_symlink():
            raise Refusal(
                f"{file} lies behind the link {folder}, so an overlay cannot hold a private copy of it.",
                "Install the package as files, not as links: pip install PACKAGE",
            )
    mode = path.stat().st_mode & 0o777
    path.unlink()
    path.write_bytes(after)
    path.chmod(mode)


def _swap(new: Path, place: Path, work: Path) -> None:
    if place.exists():
        place.rename(work / f"old-{place.name}")
    new.rename(place)


def _scripts(package: Package) -> list[Path]:
    """Console scripts that RECORD lists outside the package folders, where they are found."""
    if package.info is None or not (package.info / "RECORD").is_file():
        return []
    import csv

    found = []
    with (package.info / "RECORD").open(encoding="utf-8", newline="") as stream:
        for row in csv.reader(stream):
            name = row[0] if row else ""
            if "/bin/" not in f"/{name}" or name.split("/", 1)[0] in package.tops:
                continue
            at_target = package.info.parent / "bin" / Path(name).name
            for path in (package.info.parent / name, at_target):
                if path.is_file():
                    found.append(path)
                    break
    return found
