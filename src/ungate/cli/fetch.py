"""``ungate fetch``: wheels from the package index, unpacked as ``pip install --no-deps --target`` would."""

from __future__ import annotations

from pathlib import Path

import click

from ungate.cli.options import json_option
from ungate.cli.output import document, paper, progress
from ungate.errors import shell

__all__ = ["fetch"]


@click.command()
@click.argument("requirements", nargs=-1, required=True, metavar="DIST==VERSION...")
@click.option("--into", required=True, type=click.Path(path_type=Path, file_okay=False), help="The folder to fill.")
@json_option
def fetch(requirements: tuple[str, ...], into: Path, as_json: bool) -> int:
    """Fetch wheels without their dependencies into a folder, to read them there with --site."""
    from ungate.host.index import install

    with progress(quiet=as_json) as report:
        packages = install(requirements, into, report)
    if as_json:
        document([{"name": p.name, "version": p.version, "root": str(p.root)} for p in packages])
        return 0
    for package in packages:
        paper().print(f"{package.name} {package.version}", markup=False)
    paper().print(f"Read them with: ungate scan {shell(into)}", markup=False, soft_wrap=True)
    return 0
