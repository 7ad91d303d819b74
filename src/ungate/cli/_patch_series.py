"""From what a person names (a recipe, a bundle, a pushed series) to a series and the packages it concerns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ungate.errors import Refusal, shell
from ungate.host.environment import Environment
from ungate.host.packages import Package
from ungate.host.progress import Report
from ungate.model import Policy, ScanResult, Series, Target

__all__ = ["checked", "named", "patched_roots", "series_for", "series_of_policy", "top_root"]


def series_for(
    source: str, environment: Environment, target: str | None, report: Report
) -> tuple[Series, tuple[Package, ...], ScanResult | None]:
    """The series of a recipe or of a bundle, computed for what is installed; no file is touched.

    Returned with its packages and, for a recipe, the scan of these.
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
        return read_bundle(path, packages), packages, None
    recipe = recipes.load(source)
    packages = tuple(find(environment, name) for name in recipe.packages)
    chosen = Target.parse(target) if target else local_target()
    found, _, series = prepare(recipe, packages, chosen, report)
    return series, packages, found


def series_of_policy(
    path: Path,
    environment: Environment,
    target: str | None,
    row_bytes: int | None,
    report: Report,
    source: str | None = None,
) -> tuple[Series, tuple[Package, ...], ScanResult, Policy, tuple[str, ...]]:
    """The series that opens a policy's feature where the policy uses it, and what of the policy has no place.

    ``source`` is the recipe's file where the policy is about one of the user's own: which file is read is for the user
    to say and not for the policy. Refusal where the two are about different features, and where the policy was
    measured with other versions or for another target.
    """
    from ungate import recipes
    from ungate.host.packages import find
    from ungate.judge import policy as policies
    from ungate.patch import open_series
    from ungate.patch.restrict import restrict
    from ungate.pipeline import prepare
    from ungate.pipeline.commands import command
    from ungate.pipeline.commands import named as named_recipe
    from ungate.pipeline.reading import to_open

    policy = policies.read(path)
    chosen = Target.parse(policy.target)
    if target and Target.parse(target).number != chosen.number:
        raise Refusal(
            f"The policy {path} was measured on {chosen}, not on {target}.",
            "Measure there: ungate run RECIPE -- SERVER COMMAND",
        )
    if source is None and policy.feature not in recipes.names():
        raise Refusal(
            f"The policy {path} is about {policy.feature}, which is no recipe that comes with ungate.",
            f"Name its file too: ungate patch push RECIPE.toml --policy {shell(path)}",
        )
    recipe = recipes.load(source or policy.feature)
    if recipe.name != policy.feature:
        raise Refusal(
            f"The policy {path} is about {policy.feature}, and {source} about {recipe.name}.",
            f"Name the recipe that it was measured with: ungate patch push RECIPE.toml --policy {shell(path)}",
        )
    again = named_recipe(recipe)
    packages = tuple(find(environment, name) for name in recipe.packages)
    for package in packages:
        measured = policy.packages.get(package.name, package.version)
        if measured != package.version:
            raise Refusal(
                f"The policy {path} was measured with {package.name} {measured}, and {package.version} is installed.",
                f"Measure again: ungate run {again} -- SERVER COMMAND",
            )
    found, chain, _ = prepare(recipe, packages, chosen, report)
    gates = to_open(chain)
    # a flag that is given decides by itself, and what only sets its default is not asked
    given = recipe.flag and any(each.partition("=")[0] == recipe.flag for each in policy.arguments)
    defaults = (gate.id for hop in chain.hops if given and hop.kind == "default" for gate in hop.gates)
    where = restrict(policy, gates, packages, row_bytes=row_bytes, bypassed=frozenset(defaults))
    series = open_series(recipe.name, gates, chosen, packages, when=where.when, entries=where.entries)
    if lost := next(((gate, why) for gate, why in series.refused if gate.id in {*where.when, *where.entries}), None):
        raise Refusal(
            f"The policy cannot be written at {lost[0].file}:{lost[0].line}: {lost[1]}.",
            f"See the series without it: {command('patch diff', recipe, environment, chosen)}",
        )
    return series, packages, found, policy, where.unsaid


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


def checked(
    series: Series, packages: tuple[Package, ...], before: ScanResult | None, again: str, report: Report
) -> None:
    """Scan the packages as they would be, and refuse the series where the scanner does not agree with it.

    ``again`` is the command that shows the series.
    """
    import tempfile

    from ungate.host.packages import below
    from ungate.patch import create
    from ungate.pipeline.confirming import confirm

    if before is None or not any(edit.gate for edit in series.edits):
        return
    with tempfile.TemporaryDirectory(prefix="ungate-check-") as folder:
        overlay = create(series, packages, Path(folder))
        names = {package.name for package in packages}
        findings = confirm(series, [p for p in below(overlay.root) if p.name in names], before, report)
    if findings:
        raise Refusal(
            f"After the edits the scanner does not agree, so nothing was pushed: {findings[0].what}",
            f"See the edits: {again} --json",
        )
