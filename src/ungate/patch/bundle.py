"""A series in one file, for another node or a Dockerfile line: TOML with the diff and each file's sha256.

Nothing in a bundle is executed. It is applied when every file has the sha256 that it was made for, and refused whole
when one has not.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ungate import __version__
from ungate.errors import Refusal
from ungate.host.packages import Package
from ungate.model import Edit, Series, Target
from ungate.patch.content import digest, root_of, sha256
from ungate.patch.diff import file_diff
from ungate.patch.hunks import apply, edits_between, parse
from ungate.patch.transaction import safe

__all__ = ["is_bundle", "packages_of", "read_bundle", "write_bundle"]

_FORMAT = 1
_FIELDS = {"format": int, "name": str, "target": str, "made_by": str, "packages": dict, "files": list, "riders": list}


def _quoted(text: str) -> str:
    """A basic TOML string."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(c, c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}") for c in text) + '"'


def _block(text: str) -> str:
    """A multi-line TOML string that a person can read; literal where the text allows it."""
    plain = "'''" not in text and not text.endswith("'") and all(c >= " " or c in "\n\t" for c in text)
    if plain and "\x7f" not in text:
        return f"'''\n{text}'''"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    kept = "".join(c if (c >= " " and c != "\x7f") or c in "\n\t" else f"\\u{ord(c):04x}" for c in escaped)
    return f'"""\n{kept}"""'


def write_bundle(series: Series, contents: Mapping[str, tuple[bytes, bytes]], packages: Mapping[str, str]) -> str:
    """The bundle's text. ``contents`` maps each file to its bytes before and after, ``packages`` names to versions."""
    riders = sorted({arch for edit in series.edits for arch in edit.riders})
    out = [
        "# A patch series made by ungate. Apply it with: ungate patch push THIS_FILE",
        f"format = {_FORMAT}",
        f"name = {_quoted(series.name)}",
        f"target = {_quoted(str(series.target) if series.target.number else '')}",
        f"riders = {riders}",
        f"made_by = {_quoted(f'ungate {__version__}')}",
        "",
        "[packages]",
        *(f"{_quoted(name)} = {_quoted(version)}" for name, version in sorted(packages.items())),
    ]
    for file, (before, after) in sorted(contents.items()):
        text = file_diff(file, before, after)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Refusal(
                f"{file} holds bytes that are not UTF-8 beside the change, so it cannot go into a bundle.",
                "Use the plain diff instead: ungate patch export --output FILE.patch",
            ) from None
        out += [
            "",
            "[[files]]",
            f"path = {_quoted(file)}",
            f"before = {_quoted(sha256(before))}",
            f"after = {_quoted(sha256(after))}",
            f"diff = {_block(text)}",
        ]
    return "\n".join(out) + "\n"


def is_bundle(path: Path) -> bool:
    """Whether the file looks like a bundle rather than a recipe."""
    try:
        head = path.read_bytes()[:4096]
    except OSError:
        return False
    return b"made by ungate" in head and b"format =" in head


def _broken(path: Path, why: str) -> Refusal:
    return Refusal(
        f"{path} is no bundle that can be used: {why}.", "Export it again: ungate patch export RECIPE --bundle FILE"
    )


def _load(path: Path) -> dict[str, object]:
    try:
        found: dict[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # more than tomllib's own: endless numbers, endless nesting
        raise _broken(path, f"it is no TOML ({error})") from None
    for field, kind in _FIELDS.items():
        if not isinstance(found.get(field), kind):
            raise _broken(path, f"'{field}' is missing or of another kind")
    if odd := sorted(set(found) - set(_FIELDS)):
        raise _broken(path, f"it holds the unknown field '{odd[0]}'")
    if found["format"] != _FORMAT:
        raise _broken(path, f"it has format {found['format']}, and this ungate reads format {_FORMAT}")
    for row in found["files"]:  # type: ignore[attr-defined]
        if not isinstance(row, dict) or set(row) != {"path", "before", "after", "diff"}:
            raise _broken(path, "a [[files]] table has not exactly path, before, after and diff")
        if not all(isinstance(value, str) for value in row.values()):
            raise _broken(path, "a [[files]] table holds something else than text")
    return found


def packages_of(path: Path) -> tuple[str, ...]:
    """The distributions that a bundle is for."""
    return tuple(_load(path)["packages"])  # type: ignore[arg-type]


def read_bundle(path: Path, packages: Sequence[Package]) -> Series:
    """The series of a bundle for these packages.

    Refusal that names every file whose sha256 is neither the one before nor the one after; a file that is as after
    already counts as such only when all are.
    """
    found = _load(path)
    target = Target.parse(str(found["target"])) if found["target"] else Target(0)
    riders = tuple(arch for arch in found["riders"] if isinstance(arch, int))  # type: ignore[attr-defined]
    edits: list[Edit] = []
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    odd: list[str] = []
    standing = 0
    for row in found["files"]:  # type: ignore[attr-defined]
        file = row["path"]
        package = root_of(packages, "", file)
        if package is None:
            odd.append(f"{file} is in none of the packages")
            continue
        content = safe(package.root, file).read_bytes()
        before[file], after[file] = row["before"], row["after"]
        if sha256(content) == row["after"]:
            standing += 1
        elif sha256(content) != row["before"]:
            odd.append(f"{file} has another sha256 than the bundle was made for")
        else:
            (patch,) = parse(row["diff"].encode())
            changed = apply(content, patch)
            if patch.path != file or sha256(changed) != row["after"]:
                raise _broken(path, f"its diff of {file} does not give the content that it names")
            edits += [_riding(edit, riders) for edit in edits_between(file, content, changed, "from a bundle")]
    name = str(found["name"])
    if standing and standing == len(before) and not odd:
        return Series(name, target, (), before, after, (), "")
    if odd or standing:
        mixed = (
            [] if odd else [f"{standing} of {len(before)} files are as after the bundle already, the others are not"]
        )
        wanted = ", ".join(f"{n} {v}" for n, v in sorted(found["packages"].items()))  # type: ignore[attr-defined]
        raise Refusal(
            f"The bundle '{name}' does not fit, and nothing was changed: {'; '.join(odd + mixed)}. It is for {wanted}.",
            "Make one for what is installed: ungate patch export RECIPE --bundle FILE",
        )
    return Series(name, target, tuple(edits), before, after, (), digest(edits, before))


def _riding(edit: Edit, riders: tuple[int, ...]) -> Edit:
    return Edit(edit.file, edit.start, edit.end, edit.old, edit.new, riders=riders, why=edit.why)
