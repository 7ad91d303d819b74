"""``ungate build``: compile what a recipe opens, and prove from the binary that the kernels have a body."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ungate.cli.options import environment_options, json_option, target_option
from ungate.cli.output import document, paper, progress
from ungate.errors import Exit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ungate.pipeline.proving import Proof, UnitProof

__all__ = ["build"]


@click.command()
@click.argument("recipe")
@target_option
@environment_options
@click.option("--as-installed", is_flag=True, help="Compile the installed sources as they are, opening nothing.")
@click.option("--open", "only", multiple=True, metavar="GATE", help="Open only this gate (its id); repeatable.")
@click.option("--unit", "units", multiple=True, metavar="FILE", help="Compile only this source file; repeatable.")
@click.option("--reference", metavar="ARCH", help="Compile for this one too, to tell what is empty by design (sm_90).")
@click.option("--jobs", type=click.IntRange(1, 64), default=1, show_default=True, help="Units at a time.")
@click.option(
    "--deadline-minutes", type=click.FloatRange(0.1), default=60.0, show_default=True, help="For each unit, at most."
)
@json_option
def build(
    recipe: str,
    target: str | None,
    site: Path | None,
    python: Path | None,
    as_installed: bool,
    only: tuple[str, ...],
    units: tuple[str, ...],
    reference: str | None,
    jobs: int,
    deadline_minutes: float,
    as_json: bool,
) -> int:
    """Compile what RECIPE builds for the target, and read from the machine code which kernels have a body.

    Needs a CUDA toolkit and neither a GPU nor PyTorch. By default every gate that holds the target back is opened in
    a private copy first. Exit code 1 when a kernel is hollow or a unit does not compile.
    """
    from ungate import recipes
    from ungate.errors import Refusal
    from ungate.host import packages
    from ungate.host.environment import resolve
    from ungate.host.gpus import local_target
    from ungate.model import Target
    from ungate.pipeline import proving

    if as_installed and only:
        raise Refusal("--as-installed opens nothing, and --open opens a gate.", "Leave one of the two away.")
    loaded = recipes.load(recipe)
    goal = Target.parse(target) if target else local_target()
    env = resolve(site, python)
    with progress(quiet=as_json) as report:
        if as_installed:
            found, series = tuple(packages.find(env, name) for name in loaded.packages), None
        else:
            found, series = proving.opened(loaded, env, goal, only, report)
        proof = proving.prove(
            loaded,
            env,
            found,
            goal,
            series=series if series and series.edits else None,
            units=units,
            reference=Target.parse(reference) if reference else None,
            jobs=jobs,
            deadline_s=deadline_minutes * 60,
            report=report,
        )
    if as_json:
        document(proof)
    else:
        for part in _told(proof):
            paper().print(part)
    return Exit.FINDINGS if any(finding.severity != "note" for finding in proof.findings) else Exit.DONE


def _told(proof: Proof) -> Iterator[RenderableType]:
    from rich.text import Text

    module = proof.module
    yield Text.assemble(
        (f"{module.name}", "bold"), f" of {module.package} {module.version} for {proof.target}", (_edited(proof), "dim")
    )
    yield Text(f"described in {module.file}:{module.line}", style="dim")
    for note in module.notes:
        yield Text(f"not followed: {note}", style="yellow")
    for unit in proof.units:
        yield from _unit(unit)
    yield Text("")
    for finding in proof.findings:
        place = f"  {finding.file}:{finding.line}" if finding.file else ""
        style = "dim" if finding.severity == "note" else "bold red"
        yield Text.assemble((f"{finding.severity:<9}", style), finding.what, (place, "cyan"))
        if finding.evidence:
            yield Text(f"         {finding.evidence}", style="dim")
        yield Text(f"         {finding.advice}", style="dim")
    if all(finding.severity == "note" for finding in proof.findings):
        yield Text(
            "Every kernel has a body. That it gives right results is for the correctness ladder to show.", "green"
        )


def _edited(proof: Proof) -> str:
    if not proof.edited:
        return ", as installed"
    return f", {len(proof.edited)} edited file{'s' if len(proof.edited) > 1 else ''}"


def _unit(unit: UnitProof) -> Iterator[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    compiled, artifact = unit.compiled, unit.artifact
    how = "kept from before" if compiled.fresh else f"{compiled.seconds:.0f} s"
    if artifact is None:
        yield Text.assemble("\n", (compiled.source.name, "bold"), f"  does not compile ({how})")
        return
    counted = f"{artifact.hollow} of {artifact.kernels} kernels hollow"
    style = "bold red" if artifact.hollow else "bold green"
    yield Text.assemble("\n", (compiled.source.name, "bold"), "  ", (counted, style), f"  ({how})")
    yield Text(f"  {artifact.path}", style="dim")
    table = Table(box=None, pad_edge=True, padding=(0, 1, 0, 1), header_style="dim")
    table.add_column("kernel", overflow="fold")
    for title in ("instances", "hollow", "traps", "registers", "shared B", "spilling"):
        table.add_column(title, justify="right")
    for row in unit.families:
        numbers = (row.kernels, row.hollow, row.traps + row.unknown, row.registers, row.shared, row.spills)
        cells = ["unknown" if number is None else str(number) for number in numbers]
        table.add_row(row.name, *cells, style="red" if row.hollow else None)
    yield table
