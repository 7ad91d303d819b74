"""From what a person names (a recipe, a bundle, a pushed series) to a series and the packages it concerns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ungate.errors import Refusal
from ungate.host.environment import Environment
from ungate.host.packages import Package
from ungate.host.progress import Report
from ungate.model import Gate, Series, Target

__all__ = ["checked", "named", "patched_roots", "series_for", "top_root"]


def series_for(
    source: str, environment: Environment, target: str | None, report: Report
) -> tuple[Series, tuple[Package, ...], tuple[Gate, ...]]:
    """The series of a recipe or of a bundle, computed for what is installed; no file is touched.

    Returned with its packages and, for a recipe, all gates of these.
    """
    from ungate import recipes
    from ungate.host.gpus import local_target
    from ungate.host.packages import find, installed
    from ungate.patch.bundle import is_bundle, packages_of, read_bundle
    from ungate.pipeline import prepare

    path = Path(source)
    if path.is_file() and is_bundle(path):
        there = {package.name: package for package in installed(environment)}
        packages = tuple(there[name] for name in packages_of(path) if name in there) or tuple(there.values())
        return read_bundle(path, packages), packages, ()
    recipe = recipes.load(source)
    packages = tuple(find(environment, name) for name in recipe.packages)
    chosen = Target.parse(target) if target else local_target()
    found, _, series = prepare(recipe, packages, chosen, report)
    return series, packages, found.gates


def named(environment: Environment, names: Iterable[str]) -> tuple[Package, ...]:
    """The packages of these names that are still installed."""
    from ungate.host.packages import canonical, installed

    wanted = {canonical(name) for name in names}
    return tuple(package for package in installed(environment) if canonical(package.name) in wanted)


def patched_roots(environment: Environment) -> tuple[Path, ...]:
    """The environment's folders that have a journal: something is, or was, pushed there."""
    from ungate.patch.state import journal_of

    return tuple(root for root in environment.roots if journal_of(root).folder.is_dir())


def top_root(environment: Environment) -> Path:
    """The folder whose top series was pushed last; Refusal where nothing is pushed."""
    from ungate.patch.stack import applied

    stacks = {root: applied(root) for root in patched_roots(environment)}
    filled = {root: stack for root, stack in stacks.items() if stack}
    if not filled:
        where = ", ".join(str(root) for root in environment.roots[:2])
        raise Refusal(f"No series is pushed in {where}.", "Push one: ungate patch push RECIPE")
    return max(filled, key=lambda root: filled[root][-1].at)


def checked(series: Series, packages: tuple[Package, ...], before: tuple[Gate, ...], report: Report) -> None:
    """Scan the packages as they would be, and refuse the series where the scanner does not agree with it."""
    import tempfile

    from ungate.host.packages import below
    from ungate.patch import create, verify
    from ungate.scan import scan

    if not series.edits or not any(edit.gate for edit in series.edits):
        return
    with tempfile.TemporaryDirectory(prefix="ungate-check-") as folder:
        overlay = create(series, packages, Path(folder))
        names = {package.name for package in packages}
        after = scan([p for p in below(overlay.root) if p.name in names], report=report)
    if findings := verify(series, before, after.gates):
        raise Refusal(
            f"After the edits the scanner does not agree, so nothing was pushed: {findings[0].what}",
            f"See the edits: ungate patch diff {series.name} --json",
        )
