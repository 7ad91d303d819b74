"""``ungate releases``: in which release the gates of a feature opened or closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ungate.cli.options import json_option, target_option
from ungate.cli.output import document, paper, progress

if TYPE_CHECKING:
    from rich.text import Text

    from ungate.model import Target
    from ungate.trace.releases import Release

__all__ = ["releases"]


@click.command()
@click.argument("distribution", metavar="DIST")
@click.option("--feature", required=True, metavar="F", help="A function, or a flag: its default.")
@click.option("--from", "first", metavar="VERSION", help="Leave out what is older.")
@click.option("--to", "last", metavar="VERSION", help="Leave out what is newer.")
@target_option
@json_option
def releases(
    distribution: str, feature: str, first: str | None, last: str | None, target: str | None, as_json: bool
) -> int:
    """Read the releases of DIST one by one and say in which of them F is open for the target.

    Each wheel is fetched once and kept in the cache; only the files that decide about F are read. A
    release without a wheel is unknown. Each release is told as soon as it is read, and an interrupt keeps
    what was read.
    """
    from rich.text import Text

    from ungate.errors import Exit, Refusal
    from ungate.host.gpus import local_target
    from ungate.model import Target
    from ungate.trace.releases import changes, listed

    aim = Target.parse(target) if target else local_target()
    read: list[Release] = []
    interrupted = False
    with progress(quiet=as_json) as report:
        report(f"asking for the releases of {distribution}")
        every = listed(distribution)
        versions = _between(every, first, last)
        if not versions:
            raise Refusal(
                f"{distribution} has no release between {first or 'its first'} and {last or 'its last'}.",
                f"Its releases reach from {every[0]} to {every[-1]}: ungate releases --help"
                if every
                else f"Check the name: pip index versions {distribution}",
            )
        if not as_json:
            paper().print(Text(f"{feature} of {distribution} for {aim}", style="bold"))
        try:
            for number, version in enumerate(versions):
                report(f"reading {distribution} {version}", number, len(versions))
                read.append(_read(distribution, version, feature, aim))
                if not as_json:
                    paper().print(_line(read[-1]))
        except KeyboardInterrupt:
            interrupted = True
    left = len(versions) - len(read)
    if as_json:
        document(
            {
                "distribution": distribution,
                "feature": feature,
                "target": str(aim),
                "releases": [_record(each) for each in read],
                "changes": changes(read),
                "left": versions[len(read) :],
            }
        )
    else:
        told = ", ".join(changes(read)) or "not present in any release that was read"
        rest = f" Interrupted: {left} of {len(versions)} releases were not read." if left else ""
        paper().print(Text(f"For {aim}: {told}.{rest}", style="bold"))
    return Exit.INTERRUPTED if interrupted else Exit.DONE


def _between(versions: Sequence[str], first: str | None, last: str | None) -> list[str]:
    from packaging.version import InvalidVersion, Version

    from ungate.errors import Refusal

    try:
        low, high = (Version(first) if first else None), (Version(last) if last else None)
    except InvalidVersion as error:
        raise Refusal(f"{error}.", "Write a release like this: --from 0.6.0") from None
    return [v for v in versions if (low is None or Version(v) >= low) and (high is None or Version(v) <= high)]


def _read(distribution: str, version: str, feature: str, target: Target) -> Release:
    from ungate.errors import Refusal
    from ungate.host import index, packages
    from ungate.model import Status
    from ungate.scan import scan
    from ungate.trace.releases import Release, judge, matter

    try:
        found = packages.below(index.fetch(f"{distribution}=={version}"))
    except Refusal as refusal:
        return Release(version, Status.UNKNOWN, None, note=refusal.what)
    name = packages.canonical(distribution)
    package = next((each for each in found if packages.canonical(each.name) == name), None)
    if package is None:
        return Release(version, Status.UNKNOWN, None, note="the wheel holds no such distribution")
    narrowed, places = matter(package, feature)
    gates = scan((narrowed,), jobs=1).gates if places else ()
    return judge(version, places, gates, target)


def _record(release: Release) -> dict[str, object]:
    return {
        "version": release.version,
        "status": release.status.value,
        "present": release.present,
        "note": release.note,
        "gates": [
            {"file": gate.file, "line": gate.line, "condition": gate.condition, "passes": gate.passes}
            for gate in release.gates
        ],
    }


def _line(release: Release) -> Text:
    from rich.text import Text

    from ungate.model import Status

    styles = {Status.OPEN: "green", Status.CLOSED: "bold red", Status.UNKNOWN: "yellow"}
    word = release.status.value if release.present else ("absent" if release.present is False else "unknown")
    line = Text.assemble(
        f"  {release.version:<14}", (f"{word:<9}", styles[release.status] if release.present else "dim")
    )
    line.append("; ".join(dict.fromkeys(gate.condition for gate in release.gates)) or release.note, style="dim")
    return line
