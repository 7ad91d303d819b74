"""Installed packages: what is there, which files belong to it, and whether they are as they were installed."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ungate.errors import Refusal, shell
from ungate.host import pristine, records
from ungate.host.environment import Environment
from ungate.plain import counted

__all__ = [
    "Package",
    "below",
    "canonical",
    "deviations",
    "find",
    "installed",
    "read",
    "recorded",
    "requirement",
    "versions",
]

_INFO = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)(?:-py[0-9.]+)?\.(?:dist|egg)-info")


@dataclass(frozen=True, slots=True)
class Package:
    """One installed distribution.

    ``root`` is the folder that holds its top-level names, ``tops`` those names (a folder, or a module
    such as ``build_utils.py``), ``info`` its ``.dist-info`` folder. ``note`` says in words what could not be read.
    """

    name: str
    version: str
    root: Path
    tops: tuple[str, ...]
    editable: bool = False
    installer: str = ""
    info: Path | None = None
    note: str = ""

    @property
    def folders(self) -> tuple[Path, ...]:
        """The top-level names as paths."""
        return tuple(self.root / top for top in self.tops)


def canonical(name: str) -> str:
    """A distribution's name as package indexes compare it (``Flash_Infer`` is ``flash-infer``)."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _infos(root: Path) -> Iterator[Path]:
    try:
        names = sorted(entry.name for entry in root.iterdir() if entry.name.endswith((".dist-info", ".egg-info")))
    except OSError:
        return  # a folder on sys.path that does not exist or cannot be listed holds no package that could be imported
    for name in names:
        if not name.startswith("~"):  # pip renames to ~ame what it is about to delete
            yield root / name


def _header(info: Path) -> tuple[str, str, str]:
    """Name and version from METADATA, else from the folder's name; and what was wrong, in words."""
    note = ""
    found: dict[str, str] = {}
    source = info / ("METADATA" if info.suffix == ".dist-info" else "PKG-INFO") if info.is_dir() else info
    try:
        with source.open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                key, colon, value = line.partition(":")
                if not line.strip() or {"name", "version"} <= found.keys():
                    break
                if colon and key.lower() in {"name", "version"}:
                    found[key.lower()] = value.strip()
    except OSError as error:
        note = f"{source.name} could not be read ({error.strerror}); "
    if not (found.get("name") and found.get("version")):
        match = _INFO.fullmatch(info.name)
        note = (note or f"{source.name} names no distribution or version; ") + "taken from the folder's name"
        found.setdefault("name", match["name"] if match else info.stem)
        found.setdefault("version", match["version"] if match else "")
    return found["name"], found["version"], note


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _source_of_editable(info: Path) -> Path | None:
    with contextlib.suppress(ValueError, AttributeError):
        origin = json.loads(_text(info / "direct_url.json") or "{}")
        url = str(origin.get("url", ""))
        if (origin.get("dir_info") or {}).get("editable") and url.startswith("file:"):
            from urllib.parse import unquote, urlsplit

            return Path(unquote(urlsplit(url).path))
    return None


def _editable_roots(info: Path, source: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Candidate (root, top-level names) of an editable installation, the surest first."""
    import ast

    listed = tuple(_text(info / "top_level.txt").split())
    paths = [name for name in records.rows(info) if "/" not in name and name.endswith((".pth", "_finder.py"))]
    for name in paths:
        text = _text(info.parent / name)
        if match := re.search(r"^MAPPING[^=\n]*=\s*(\{.*?\})", text, re.MULTILINE | re.DOTALL):
            with contextlib.suppress(ValueError, SyntaxError):
                mapping: dict[str, str] = ast.literal_eval(match[1])
                roots = {Path(target).parent for target in mapping.values()}
                if len(roots) == 1:
                    yield roots.pop(), tuple(Path(target).name for target in mapping.values())
    for name in paths:
        for line in _text(info.parent / name).splitlines():
            if line and not line.startswith(("#", "import ", "import\t")):
                yield info.parent / line, listed
    yield source / "src", listed
    yield source, listed


def _present(root: Path, tops: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(found for top in tops for found in (top, f"{top}.py") if (root / found).exists())


def _read_editable(name: str, version: str, installer: str, info: Path, source: Path) -> Package:
    for root, listed in _editable_roots(info, source):
        tops = _present(root, listed or (name.replace("-", "_"), canonical(name).replace("-", "_")))
        if tops:
            unique = tuple(dict.fromkeys(tops))
            return Package(name, version, root.resolve(), unique, True, installer, info)
    note = f"editable, and its source folder {source} holds none of its modules"
    return Package(name, version, source, (), True, installer, info, note)


def read(info: Path) -> Package:
    """The package that a ``.dist-info`` (or ``.egg-info``) describes; what is broken there stands in ``note``."""
    name, version, note = _header(info)
    installer = _text(info / "INSTALLER")
    if source := _source_of_editable(info):
        return _read_editable(name, version, installer, info, source)
    root = info.parent
    tops = records.tops(info)
    if tops is None:
        note = "; ".join(filter(None, (note, "RECORD is missing, so that its files are not known for certain")))
        listed = tuple(_text(info / "top_level.txt").split()) or (name.replace("-", "_"),)
        tops = _present(root, listed)
    return Package(name, version, root, tops, False, installer, info, note)


def installed(env: Environment) -> tuple[Package, ...]:
    """Every distribution of an environment, sorted by name; of two with one name the first on the path."""
    found: dict[str, Package] = {}
    for root in env.roots:
        for info in _infos(root):
            package = read(info)
            found.setdefault(canonical(package.name), package)
    return tuple(found[name] for name in sorted(found))


def versions(env: Environment) -> dict[str, str]:
    """Canonical name to version of every distribution, without reading which files belong to it."""
    found: dict[str, str] = {}
    for root in env.roots:
        for info in _infos(root):
            name, version, _ = _header(info)
            found.setdefault(canonical(name), version)
    return dict(sorted(found.items()))


def find(env: Environment, name: str) -> Package:
    """The distribution of that name; Refusal that names what looks similar when it is not there."""
    wanted = canonical(name)
    names: set[str] = set()
    for root in env.roots:
        for info in _infos(root):
            found = canonical(_header(info)[0])
            if found == wanted:
                return read(info)
            names.add(found)
    close = difflib.get_close_matches(wanted, sorted(names), n=3, cutoff=0.6)
    words = set(wanted.split("-"))
    alike = list(dict.fromkeys([*close, *sorted(other for other in names if words & set(other.split("-")))]))[:5]
    where = ", ".join(str(root) for root in env.roots[:2]) + (" and more" if len(env.roots) > 2 else "")
    folder = next((root / wanted for root in env.roots if (root / wanted).is_dir()), None)
    there = (
        f"; similar names there are {', '.join(alike)}"
        if alike
        else f" ({counted(len(names), 'distribution is', 'distributions are')})"
    )
    if folder and not alike:
        there = f"; the folder {folder} is there but no .dist-info describes it"
    raise Refusal(
        f"The distribution '{name}' is not installed in {where}{there}.",
        f"Name another environment with --site DIR or --python PATH, or have it fetched: ungate scan {wanted}==VERSION",
    )


def below(folder: Path) -> tuple[Package, ...]:
    """Every distribution in a folder such as an unpacked wheel or ``pip --target``.

    A folder without any ``.dist-info`` is one package itself, named after the folder, with version ``""``.
    """
    folder = folder.expanduser().resolve()
    if not folder.exists():
        raise Refusal(f"The folder {folder} does not exist.", "Check the path: ungate scan DIR")
    if not folder.is_dir():
        raise Refusal(
            f"{folder} is a file, and only folders of packages are read.",
            f"Name the folder that it lies in: ungate scan {shell(folder.parent)}",
        )
    if not os.access(folder, os.R_OK | os.X_OK):
        raise Refusal(f"The folder {folder} may not be read.", f"Look at its permissions: ls -ld {shell(folder)}")
    found = tuple(read(info) for info in _infos(folder))
    return found or (Package(folder.name, "", folder.parent, (folder.name,)),)


def recorded(package: Package) -> Mapping[str, str]:
    """File relative to ``package.root`` to the sha256 (hex) it was installed with.

    Empty for an editable installation and where RECORD is missing: nothing is known then.
    """
    return {} if package.editable or package.info is None else records.hashes(package.info)


def deviations(package: Package, *, remembered: bool = False) -> tuple[tuple[str, str], ...]:
    """(file, reason) for each file that is not as installed; a reason begins changed, missing, extra or unknown.

    With ``remembered``, what no one wrote since it was last compared is not read again.
    """
    if package.info is None:
        return ((package.name, "unknown: no .dist-info describes this folder, so nothing can be compared"),)
    if package.editable:
        return (
            (package.name, f"unknown: it is an editable installation; ask git: git -C {shell(package.root)} status"),
        )
    return pristine.deviations(
        package.root, package.tops, package.info, tuple(_infos(package.root)), remembered=remembered
    )


def requirement(package: Package, name: str) -> str | None:
    """What the package's metadata asks of another distribution (``apache-tvm-ffi>=0.1.6,<0.2``); None if nothing."""
    text = _text(package.info / "METADATA") if package.info else ""
    for line in re.findall(r"^Requires-Dist:\s*(.+)$", text.partition("\n\n")[0], re.MULTILINE):
        asked = re.match(r"[\w.-]+", line)
        if asked and canonical(asked[0]) == canonical(name) and "extra ==" not in line:
            return re.sub(r"\[[^]]*\]", "", str(line).partition(";")[0]).replace(" ", "")
    return None
