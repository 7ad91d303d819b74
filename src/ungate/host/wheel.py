"""Unpacking a wheel safely: nothing lands outside the folder, and nothing counts until all of it is there."""

from __future__ import annotations

import hashlib
import shutil
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ungate.errors import Refusal
from ungate.host.progress import Report, silent

__all__ = ["digest", "unpack"]

_SPREAD = {"purelib", "platlib"}  # PEP 427: below NAME.data these belong into the same folder as the rest


def digest(path: Path) -> str:
    """The sha256 (hex) of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _refuse(wheel: Path, why: str) -> Refusal:
    return Refusal(
        f"The wheel {wheel.name} is not unpacked: {why}.",
        f"Fetch it again, and if that does not help, look into it: python -m zipfile -l {wheel.name}",
    )


def _place(name: str) -> str:
    """Where a member belongs, relative to the folder: ``X.data/purelib/a.py`` is ``a.py``."""
    parts = PurePosixPath(name).parts
    if len(parts) > 2 and parts[0].endswith(".data") and parts[1] in _SPREAD:
        parts = parts[2:]
    return "/".join(parts)


def _members(archive: zipfile.ZipFile, wheel: Path) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    seen: set[str] = set()
    for member in archive.infolist():
        path = PurePosixPath(member.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in path.parts[0]:
            raise _refuse(wheel, f"its member '{member.filename}' points out of the folder")
        mode = member.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise _refuse(wheel, f"its member '{member.filename}' is a link or a device and not a file")
        if member.is_dir():
            continue
        place = _place(member.filename)
        if place in seen:
            raise _refuse(wheel, f"it holds '{place}' twice")
        seen.add(place)
        yield member, place


def _rewrite_record(info: Path) -> None:
    """RECORD names a spread file by its place in the archive; it must name where the file is."""
    record = info / "RECORD"
    if not record.exists():
        return
    lines = record.read_text(encoding="utf-8", errors="surrogateescape").splitlines(keepends=True)
    changed = [
        line if ".data/" not in line else _place(line.partition(",")[0]) + line[line.index(",") :] for line in lines
    ]
    if changed != lines:
        record.write_text("".join(changed), encoding="utf-8", errors="surrogateescape")


def unpack(wheel: Path, into: Path, report: Report = silent) -> Path:
    """Unpack ``wheel`` into the folder ``into``, which must not exist yet; returns its ``.dist-info`` folder.

    Refusal for a file that is no wheel, is cut short, or has a member that would land elsewhere (``..``, an absolute
    path, a link). On any failure ``into`` is removed again.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = list(_members(archive, wheel))
            free = shutil.disk_usage(into.parent).free
            if (needed := sum(member.file_size for member, _ in members)) > free:
                raise _refuse(wheel, f"it needs {needed >> 20} MB and {into.parent} has {free >> 20} MB left")
            into.mkdir()
            for done, (member, place) in enumerate(members):
                if done % 256 == 0:
                    report(f"unpacking {wheel.name}", done, len(members))
                target = into / place
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("xb") as sink:
                    shutil.copyfileobj(source, sink, 1 << 20)
                if (member.external_attr >> 16) & 0o111:
                    target.chmod(0o755)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        shutil.rmtree(into, ignore_errors=True)
        raise _refuse(wheel, f"it is damaged ({error})") from error
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise
    infos = [top for top in into.iterdir() if top.name.endswith(".dist-info")]
    if len(infos) != 1:
        shutil.rmtree(into, ignore_errors=True)
        raise _refuse(wheel, "it is no wheel (it must hold exactly one .dist-info folder)")
    _rewrite_record(infos[0])
    return infos[0]
