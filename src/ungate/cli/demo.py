"""``ungate demo``: the whole loop on the embedded lab stack."""

from __future__ import annotations

import click

from ungate.cli.options import json_option
from ungate.cli.run import show

__all__ = ["demo"]


def _compiler() -> None:
    """Refusal where there is no C++ compiler, since the lab's kernels are compiled on this machine."""
    import os
    import shutil

    from ungate.errors import Refusal

    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    if not any(map(shutil.which, names)):
        raise Refusal(
            f"The demo compiles kernels with the system's C++ compiler, and none of {', '.join(names)} is on PATH.",
            "Install one and run the demo again: apt-get install g++ (Debian, Ubuntu) or dnf install gcc-c++ (Fedora)",
        )


@click.command()
@click.option("--ranks", type=click.Choice(["2", "4", "8"]), default="4", show_default=True, help="Tensor parallel.")
@click.option("--pairs", type=click.IntRange(2, 32), default=3, show_default=True, help="Pairs of server starts.")
@click.option("--load-seconds", type=click.FloatRange(1), default=3.0, show_default=True, help="A cell at each start.")
@json_option
def demo(ranks: str, pairs: int, load_seconds: float, as_json: bool) -> int:
    """Run the whole loop on a small kernel library and a small tensor-parallel server that ungate brings along.

    The library gates its fused allreduce off for sm_120, as FlashInfer did. Nothing is simulated: the
    server computes, its ranks are processes, and whether the opened path helps depends on this machine.
    Needs a C++ compiler and no GPU. Exit code 0 when the loop was completed, whatever the verdict.
    """
    from ungate import pipeline, recipes
    from ungate.errors import Exit
    from ungate.host.environment import resolve
    from ungate.lab.install import command, install
    from ungate.model import Target

    _compiler()
    recipe = recipes.load("lab-allreduce-fusion")
    folder = pipeline.new_folder("demo")
    lab = install(folder / "site")
    request = pipeline.Request(
        recipe=recipe,
        environment=resolve(lab.site, None),
        target=Target.parse("sm_120"),
        folder=folder,
        command=command(lab, port=0, tp=int(ranks)),
        variables={"LAB_CUDA_ARCH_LIST": "12.0", "LAB_KERNELS_CACHE": str(folder / "kernels")},
        pairs=pairs,
        min_effect=0.25,
        budget_s=120.0,
        load_s=load_seconds,
        start_deadline_s=60.0,
    )
    code = show(request, as_json)
    return Exit.DONE if code in {Exit.DONE, Exit.FINDINGS, Exit.INCONCLUSIVE} else code
