"""Compile what a recipe builds for a target this machine need not have, and read the proof from the binary.

No GPU, no driver and no PyTorch are needed: the package's build description is read, not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ungate.build import cubins, proof, sass
from ungate.build.companions import companion
from ungate.build.compile import Compiled, Complaint, compile_module, effective_target
from ungate.build.descriptions import Wanted, describe
from ungate.build.proof import Family
from ungate.build.unit import Module
from ungate.errors import Refusal, shell
from ungate.host import packages as installed
from ungate.host.environment import Environment
from ungate.host.folders import cache_dir
from ungate.host.packages import Package
from ungate.host.progress import Report, silent
from ungate.model import Artifact, Finding, Recipe, Series, Target
from ungate.pipeline.commands import command
from ungate.pipeline.reading import prepare

__all__ = ["Proof", "UnitProof", "opened", "prove"]


@dataclass(frozen=True, slots=True)
class UnitProof:
    """One translation unit: what the compiler said, and what its kernels are. ``artifact`` None: it did not compile."""

    compiled: Compiled
    artifact: Artifact | None
    families: tuple[Family, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """The proof of one module for one target. ``edited`` are the files that differ from the installed ones."""

    module: Module
    target: Target
    edited: tuple[str, ...]
    units: tuple[UnitProof, ...]
    general: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.general, *(finding for unit in self.units for finding in unit.findings))


def opened(
    recipe: Recipe, env: Environment, target: Target, only: Sequence[str] = (), report: Report = silent
) -> tuple[tuple[Package, ...], Series]:
    """The recipe's packages with its closed gates opened in an overlay; with ``only``, just the gates of these ids."""
    import ungate.patch
    from ungate.patch.overlay import create

    packages = tuple(installed.find(env, name) for name in recipe.packages)
    found, chain, series = prepare(recipe, packages, target, report)
    if only:
        gates = {gate.id: gate for gate in (*chain.gates, *found.gates)}
        chosen = [gate for gate in gates.values() if any(gate.id.startswith(prefix) for prefix in only)]
        if missing := [prefix for prefix in only if not any(gate.id.startswith(prefix) for gate in chosen)]:
            raise Refusal(
                f"No gate of {recipe.name} has the id {', '.join(missing)}.",
                f"See the ids: {command('why', recipe, env, target)} --json",
            )
        series = ungate.patch.open_series(recipe.name, chosen, target, packages)
    if not series.edits:
        return packages, series
    report("copying the packages into an overlay")
    overlay = create(series, packages, cache_dir() / "overlays")
    moved = {package.name: package for package in overlay.packages}
    return tuple(moved.get(package.name, package) for package in packages), series


def prove(
    recipe: Recipe,
    env: Environment,
    packages: Sequence[Package],
    target: Target,
    *,
    series: Series | None = None,
    units: Sequence[str] = (),
    reference: Target | None = None,
    jobs: int = 1,
    deadline_s: float = 3600.0,
    report: Report = silent,
) -> Proof:
    """Compile the recipe's module from ``packages`` (installed, or an overlay's) and read what each unit holds.

    With ``reference`` each unit is compiled for that architecture too, to tell what is empty by design. Where the
    installed sources were compiled before, what the edits changed is found as well.
    """
    if not recipe.build:
        raise Refusal(
            f"The recipe {recipe.name} names no build, so there is nothing to compile.",
            'Add to the recipe: build = "package.module:function"',
        )
    top = recipe.build.partition(".")[0]
    described = f"{top}.py"  # a setup.py lies beside the package
    package = next((found for found in packages if top in found.tops or (found.root / described).is_file()), None)
    if package is None:
        raise Refusal(
            f"The build '{recipe.build}' is part of none of {', '.join(found.name for found in packages)}.",
            "Correct 'build' in the recipe.",
        )
    wanted = Wanted(
        recipe.build,
        package,
        target,
        companion(env, package, report),
        lambda name: _installed(env, name),
        recipe.build_arguments,
    )
    module = describe(wanted)
    edited = tuple(sorted(series.after)) if series else ()
    builds = cache_dir() / "builds" / f"{module.package}-{module.version}"
    folder = builds / (series.digest[:16] if series else "installed")
    compiled = compile_module(module, target, folder, only=units, jobs=jobs, deadline_s=deadline_s, report=report)
    others: tuple[Compiled, ...] = ()
    if reference is not None:
        there = describe(replace(wanted, target=reference))  # its flags may name the architecture
        others = compile_module(there, reference, folder, only=units, jobs=jobs, deadline_s=deadline_s, report=report)
    compared = {other.source: other.cubin for other in others if other.cubin}
    goal = effective_target(module, target)
    gates = {edit.file: edit.gate for edit in series.edits} if series else {}
    before = builds / "installed" if series else None
    advice = f"See what closes them, and open it too: {command('check', recipe, env, goal)}"
    proved = tuple(
        _unit(advice, package, one, goal, gates, compared.get(one.source), before, report) for one in compiled
    )
    general = tuple(
        proof.shadowed(library, cubins.archs(library), str(goal), module.package, _owner(env, library))
        for library in module.prebuilt
    )
    return Proof(module, goal, edited, proved, general)


def _owner(env: Environment, file: Path) -> str:
    """The distribution that brought a file; empty where none of the environment did."""
    there = installed.installed(env)
    return next((p.name for p in there if any(file.is_relative_to(p.root / top) for top in p.tops)), "")


def _installed(env: Environment, name: str) -> Package | None:
    return installed.find(env, name) if installed.canonical(name) in installed.versions(env) else None


def _unit(
    advice: str,
    package: Package,
    one: Compiled,
    target: Target,
    gates: dict[str, str],
    reference: Path | None,
    before: Path | None,
    report: Report,
) -> UnitProof:
    if one.cubin is None:
        return UnitProof(one, None, (), tuple(_complaints(package, one, gates)))
    report(f"reading the kernels of {one.source.name}")
    images = sass.read(one.cubin, report=report)
    (other,) = sass.read(reference) if reference else (None,)
    findings = tuple(finding for image in images for finding in proof.hollow(image, advice, other))
    if before is not None and (before / one.cubin.name).exists():
        (old,) = sass.read(before / one.cubin.name)
        findings += tuple(finding for image in images for finding in proof.changes(old, image))
    rows = tuple(row for image in images for row in proof.families(image, one.spills))
    return UnitProof(one, proof.artifact(one.cubin, images, str(target), one.seconds), rows, findings)


def _alike(complaints: Sequence[Complaint]) -> list[tuple[str, list[Complaint]]]:
    """Complaints by what they say, in their order: an instruction that is missing is missing at every use."""
    found: dict[str, list[Complaint]] = {}
    for complaint in complaints:
        found.setdefault(complaint.text, []).append(complaint)
    return list(found.items())


def _complaints(package: Package, one: Compiled, gates: dict[str, str]) -> list[Finding]:
    """The compiler's errors, each with the opened gate of that file, the likeliest way to it."""
    found = []
    for text, (complaint, *more) in _alike(one.complaints):
        path = Path(complaint.file)
        inside = path.is_absolute() and path.is_relative_to(package.root)
        file = path.relative_to(package.root).as_posix() if inside else complaint.file
        missing = complaint.text.partition(": No such file or directory")
        if missing[1]:
            found.append(
                Finding(
                    rule="header-missing",
                    severity="warning",
                    what=f"{one.source.name} was not compiled and nothing is proved: {missing[0]} is not on this host.",
                    evidence=f"nvcc, in {one.log}",
                    advice="Install what brings it (headers of CUDA's libraries come with the toolkit).",
                    file=file,
                    line=complaint.line,
                    end_line=complaint.line,
                )
            )
            continue
        led = f"the gate {gates[file]} was opened in this file" if file in gates else ""
        found.append(
            Finding(
                rule="does-not-compile",
                severity="terminal",
                what=f"{one.source.name} does not compile for {one.target}: {text}"
                + (f" (and {len(more)} more of these)" if more else ""),
                evidence=led or (f"nvcc, in {one.log}"),
                advice=f"Read all of it: less {shell(one.log)}",
                file=file,
                line=complaint.line,
                end_line=complaint.line,
            )
        )
    return found
