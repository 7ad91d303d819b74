"""A series on its way out, and a foreign patch on its way in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ungate.cli._patch_series import named, patched_roots, series_for
from ungate.errors import Refusal
from ungate.host.environment import Environment
from ungate.host.packages import Package
from ungate.host.progress import Report
from ungate.model import Series, Target
from ungate.patch.foreign import Imported

__all__ = ["exported", "imported"]


def exported(
    source: str, environment: Environment, target: str | None, report: Report, *, bundled: bool, checkout: bool
) -> str:
    """The text of a bundle, or of a diff, of a pushed series (by name), a recipe or another bundle."""
    from ungate.patch.bundle import write_bundle
    from ungate.patch.diff import file_diff
    from ungate.patch.upstream import in_checkout

    series, contents, packages = _found(source, environment, target, report)
    if not contents:
        raise Refusal(
            f"There is nothing to export: '{source}' changes no file here.", f"See why: ungate patch diff {source}"
        )
    owners = {file: _owner(file, packages) for file in contents}
    if bundled:
        return write_bundle(series, contents, {p.name: p.version for p in owners.values()})
    parts = []
    for file, (before, after) in sorted(contents.items()):
        parts.append(file_diff(in_checkout(owners[file].name, file) if checkout else file, before, after))
    return "".join(parts)


def _owner(file: str, packages: tuple[Package, ...]) -> Package:
    return next((p for p in packages if file.split("/", 1)[0] in p.tops), packages[0])


def _found(
    source: str, environment: Environment, target: str | None, report: Report
) -> tuple[Series, dict[str, tuple[bytes, bytes]], tuple[Package, ...]]:
    from ungate.patch.content import changed
    from ungate.patch.hunks import edits_between
    from ungate.patch.stack import applied, contents

    for root in patched_roots(environment):
        for each in applied(root):
            if each.name == source:
                texts = contents(each, root)
                plain = (e for file, (old, new) in texts.items() for e in edits_between(file, old, new))
                edits = tuple(replace(edit, riders=each.riders) for edit in plain)
                chosen = Target.parse(each.target) if each.target and each.target != "sm_0" else Target(0)
                sides = [{file: pair[i] for file, pair in each.files.items()} for i in (0, 1)]
                series = Series(each.name, chosen, edits, sides[0], sides[1], (), each.digest)
                return series, texts, named(environment, each.packages)
    series, packages, _ = series_for(source, environment, target, report)
    texts = {file: (before, after) for file, (_, before, after) in changed(series, packages).items()}
    return series, texts, packages


def imported(file: Path, name: str, environment: Environment, *, moved: bool) -> tuple[Imported, tuple[Package, ...]]:
    """A foreign patch as a series over the installed packages that its paths concern."""
    from ungate.host.packages import installed
    from ungate.patch.foreign import import_patch
    from ungate.patch.hunks import parse

    if not file.is_file():
        raise Refusal(f"There is no patch file {file}.", "Check the path: ungate patch import FILE.patch")
    data = file.read_bytes()
    words = {part for each in parse(data) for part in each.path.split("/")}
    everything = installed(environment)
    near = tuple(p for p in everything if words & {top.removesuffix(".py") for top in p.tops} or words & set(p.tops))
    packages = near or everything
    return import_patch(name, data, packages, moved=moved), packages
