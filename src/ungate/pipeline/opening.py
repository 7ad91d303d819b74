"""The stages that open: is it safe, the overlay with its edits, the build."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ungate.errors import Refusal
from ungate.host import packages as installed
from ungate.host.environment import Environment
from ungate.host.facts import HostFacts
from ungate.host.folders import cache_dir
from ungate.host.progress import Report, silent
from ungate.model import Artifact, Finding, KnownMatch, Recipe, Series, Target
from ungate.pipeline.commands import command
from ungate.pipeline.confirming import confirm
from ungate.pipeline.environment import base_environment
from ungate.pipeline.reading import follow, to_open
from ungate.pipeline.records import Context, Records, Request

__all__ = ["ask", "build", "check", "patch"]


def check(request: Request, records: Records, context: Context) -> Records:
    """Ask what would go wrong: with the gate that stops the build opened alone, and with all of them opened."""
    import ungate.check

    chain = records.chain
    if chain is None:
        return records
    context.report("checking what opening would do")
    known = _known(request.recipe, request.environment, request.target, records.facts)

    def ask(opened: frozenset[str]) -> tuple[Finding, ...]:
        return ungate.check.check(
            chain,
            request.target,
            records.packages,
            opened=opened,
            facts=records.facts,
            needs_peer_access=request.recipe.needs_peer_access,
            instead=request.recipe.instead,
            known=known,
        )

    closed = to_open(chain)
    whole = frozenset(gate.id for gate in closed)
    first = frozenset(gate.id for hop in chain.hops if hop.kind == "jit-module" for gate in hop.gates) & whole
    findings = list(ask(whole))
    if first and first != whole:
        findings += [
            replace(finding, what=f"if only the JIT gate were opened, {finding.what}")
            for finding in ask(first)
            if finding not in findings
        ]
    stopped = next((finding.what for finding in findings if finding.severity == "terminal"), "")
    return replace(records, findings=ungate.check.worst_first(findings), stopped=stopped)


def ask(
    recipe: Recipe,
    environment: Environment,
    target: Target,
    opened: frozenset[str],
    facts: HostFacts | None,
    report: Report = silent,
) -> tuple[Finding, ...]:
    """The findings for a recipe with the gates ``opened`` (ids), or with all of them where none is named.

    Refusal for an id that is no closed gate of the recipe's chain.
    """
    import ungate.check

    packages = tuple(installed.find(environment, name) for name in recipe.packages)
    _, chain = follow(recipe, packages, target, report)
    closed = {gate.id: gate for gate in to_open(chain)}
    if strangers := opened - closed.keys():
        listed = ", ".join(f"{key} ({gate.file}:{gate.line})" for key, gate in list(closed.items())[:6])
        raise Refusal(
            f"{', '.join(sorted(strangers))} is no closed gate of {recipe.name} for {target}; "
            f"closed are {listed or 'none'}.",
            f"See the ids: {command('why', recipe, environment, target)} --json",
        )
    return ungate.check.check(
        chain,
        target,
        packages,
        opened=opened or frozenset(closed),
        facts=facts,
        needs_peer_access=recipe.needs_peer_access,
        instead=recipe.instead,
        known=_known(recipe, environment, target, facts),
    )


def _known(recipe: Recipe, environment: Environment, target: Target, facts: HostFacts | None) -> tuple[KnownMatch, ...]:
    from ungate.record.known import described, matching, topology_of

    return matching(described(recipe), target, installed.versions(environment), topology_of(facts))


def patch(request: Request, records: Records, context: Context) -> Records:
    """Edit a private copy of the packages, scan it again, and make sure that the installed ones are untouched."""
    import ungate.patch
    from ungate.patch import proof
    from ungate.patch.diff import unified
    from ungate.patch.overlay import create

    chain, before = records.chain, records.scan
    if chain is None or before is None:
        return records
    closed = to_open(chain)
    if not closed and request.command and (request.recipe.arguments or request.recipe.environment):
        return records  # the candidate differs by its switch alone, and whether that helps can be measured
    if not closed:
        flag = f" Switch it on with {request.recipe.flag}." if request.recipe.flag else ""
        return replace(records, stopped=f"every gate already lets {request.target} through: nothing to open.{flag}")
    again = partial(command, recipe=request.recipe, environment=request.environment, target=request.target)
    context.report("computing the edits")
    series = ungate.patch.open_series(request.recipe.name, closed, request.target, records.packages)
    if series.refused and not series.edits:
        gate, why = series.refused[0]
        raise Refusal(
            f"No gate of {request.recipe.name} can be opened: {gate.file}:{gate.line}: {why}.",
            f"See the whole chain: {again('why')}",
        )
    context.report("copying the packages into an overlay")
    overlay = create(series, records.packages, cache_dir() / "overlays", base=base_environment(request))
    context.report("scanning the overlay again")
    copies = tuple(package for package in installed.below(overlay.root) if package.name in _names(records))
    found = [*confirm(series, copies, before, context.report)]
    context.report("compiling the edited Python, preprocessing the edited headers")
    found += [*proof.compiles(series, overlay.root), *proof.preprocesses(series, overlay.root)]
    if request.environment.python is not None:
        python, base = request.environment.python, base_environment(request)
        found += proof.imports(series, python, {**base, **overlay.environment}, base, overlay.root)
    if worst := next((finding for finding in found if finding.severity == "danger"), None):
        raise Refusal(
            f"The edited copy does not hold: {worst.what}",
            f"Nothing was installed. Look at it: {again('patch diff')}",
        )
    context.report("checking that the installed files are as they were")
    pristine = tuple((package.name, _unchanged(package, series)) for package in records.packages)
    return replace(
        records,
        series=series,
        overlay=overlay,
        diff=unified(series, records.packages),
        pristine=pristine,
        findings=(*records.findings, *found),
    )


def _names(records: Records) -> frozenset[str]:
    return frozenset(package.name for package in records.packages)


def _unchanged(package: installed.Package, series: Series) -> int:
    """The number of files of the package whose sha256 is still RECORD's; Refusal if the series' files are not."""
    off = dict(installed.deviations(package, remembered=True))
    touched = [file for file in series.before if file in off and not _was_off_before(package, file, series)]
    if touched:
        raise Refusal(
            f"The installed file {touched[0]} is no longer what its RECORD says.",
            f"Restore it: pip install --force-reinstall --no-deps {package.name}=={package.version}",
        )
    return len(installed.recorded(package)) - len(off)


def _was_off_before(package: installed.Package, file: str, series: Series) -> bool:
    import hashlib

    return hashlib.sha256((package.root / file).read_bytes()).hexdigest() == series.before[file]


def build(request: Request, records: Records, context: Context) -> Records:
    """Compile what the edits touch, in the overlay, for the target; a hollow kernel ends the run."""
    from ungate.build import compile_recipe

    overlay, recipe = records.overlay, request.recipe
    if overlay is None or not recipe.build:
        return records
    artifacts = compile_recipe(
        recipe.build,
        packages=records.packages,
        environment={**base_environment(request), **overlay.environment, **recipe.environment},
        built_in=overlay.caches,
        arguments=recipe.build_arguments,
        target=request.target,
        python=request.environment.python,
        log=request.folder / "build.log",
        prefix=recipe.kernel_prefix,
        report=context.report,
    )
    findings = tuple(found for artifact in artifacts if (found := _broken(artifact, request)) is not None)
    stopped = findings[0].what if findings else ""
    return replace(records, artifacts=artifacts, findings=(*records.findings, *findings), stopped=stopped)


def _broken(artifact: Artifact, request: Request) -> Finding | None:
    """The terminal finding of a binary whose kernels cannot do their work on the target."""
    name = artifact.path.name
    if artifact.kernels == 0:
        what = f"{name} holds no kernel for {request.target}"
    elif artifact.hollow:
        what = f"{artifact.hollow} of {artifact.kernels} kernels in {name} have no body"
    else:
        return None
    advice = f"See what stays closed: {command('check', request.recipe, request.environment, request.target)}"
    return Finding("hollow-binary", "terminal", what, advice, evidence=artifact.note)
