"""``ungate cache``: what each JIT cache holds, what is stale and why, and removing exactly that."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ungate.cli.options import environment_options, json_option
from ungate.cli.output import document, paper, progress
from ungate.errors import Exit, shell
from ungate.plain import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ungate.build.freshness import Entry
    from ungate.host.environment import Environment

__all__ = ["cache"]

_STYLE = {"fresh": "green", "stale": "bold red", "unknown": "yellow", "busy": "cyan"}


@click.group()
def cache() -> None:
    """What each JIT cache holds, what is stale and why; removes exactly that.

    The caches are looked for where the environment variables of this shell say (FLASHINFER_WORKSPACE_BASE,
    TRITON_CACHE_DIR, TORCH_EXTENSIONS_DIR …), else in their usual places; and in the overlays that ungate has made.
    """


@cache.command("ls")
@click.argument("owners", nargs=-1, metavar="[PACKAGE]...")
@click.option("--cache", "names", multiple=True, metavar="NAME", help="Only this cache (flashinfer, triton …).")
@click.option("--stale", "only_stale", is_flag=True, help="Only what is stale.")
@environment_options
@json_option
def ls(
    owners: tuple[str, ...],
    names: tuple[str, ...],
    only_stale: bool,
    site: Path | None,
    python: Path | None,
    as_json: bool,
) -> int:
    """List the entries of every cache, or of those that belong to PACKAGE, with state and reason.

    Fresh or stale is decided by content, never by date: ungate keeps the hashes of an entry and of all it was made from
    when it first sees it, and compares from then on.
    """
    from ungate.cli._caches import surveyed
    from ungate.host.environment import resolve
    from ungate.host.packages import canonical

    with progress(quiet=as_json) as report:
        env = resolve(site, python)
        found = surveyed(env, names, report)
    _known(owners, found, env)
    wanted = {canonical(owner) for owner in owners}
    shown = [entry for entry in found if not wanted or canonical(entry.owner) in wanted]
    shown = [entry for entry in shown if not only_stale or entry.state == "stale"]
    if as_json:
        document({"entries": shown})
    else:
        out = paper()
        for part in _listed(shown, out.width):
            out.print(part)
    return Exit.DONE


@cache.command("purge")
@click.argument("owners", nargs=-1, required=True, metavar="PACKAGE...")
@click.option("--cache", "names", multiple=True, metavar="NAME", help="Only this cache (flashinfer, triton …).")
@click.option("--yes", is_flag=True, help="Really remove; without it only what would be removed is shown.")
@environment_options
@json_option
def purge(
    owners: tuple[str, ...],
    names: tuple[str, ...],
    yes: bool,
    site: Path | None,
    python: Path | None,
    as_json: bool,
) -> int:
    """Remove exactly the stale entries that belong to PACKAGE. Shows only what it would do, until --yes is given.

    Refuses while a process uses an entry, and never follows a link out of a cache.
    """
    from ungate.build import purge
    from ungate.cli._caches import surveyed
    from ungate.host.environment import resolve

    with progress(quiet=as_json) as report:
        env = resolve(site, python)
        found = surveyed(env, names, report)
    _known(owners, found, env)
    doomed = purge.chosen(found, owners)
    freed = purge.remove(doomed) if yes else 0
    if as_json:
        document({"removed": yes, "freed": freed, "entries": doomed})
        return Exit.DONE
    out = paper()
    if not doomed:
        out.print(f"Nothing of {', '.join(owners)} is stale.", markup=False)
        return Exit.DONE
    for part in _listed(doomed, out.width):
        out.print(part)
    if yes:
        out.print(f"Removed {counted(len(doomed), 'entry', 'entries')}, {_size(freed)}.", markup=False)
    else:
        total = _size(sum(entry.size for entry in doomed))
        out.print(
            f"Would remove {counted(len(doomed), 'entry', 'entries')}, {total}. Nothing was changed.", markup=False
        )
        asked = [f"--cache {shell(name)}" for name in names]  # without these another environment would be asked
        asked += [f"--{option} {shell(path)}" for option, path in (("site", site), ("python", python)) if path]
        again = " ".join((*map(shell, owners), *asked, "--yes"))
        out.print(f"To remove them: ungate cache purge {again}", markup=False, style="dim", soft_wrap=True)
    return Exit.DONE


def _known(owners: Sequence[str], found: Sequence[Entry], env: Environment) -> None:
    """Refusal for a package that is not installed, owns no entry and no cache is named after: a misspelt name."""
    from ungate import recipes
    from ungate.build.caches import caches
    from ungate.errors import Refusal
    from ungate.host.packages import canonical, versions

    there = {*(entry.owner for entry in found), *versions(env), *recipes.packages(), *(each.name for each in caches())}
    known = {canonical(name) for name in there}
    for owner in owners:
        if canonical(owner) not in known:
            near = difflib.get_close_matches(canonical(owner), sorted(known), 1, 0.6)
            raise Refusal(
                f"{owner} is not installed there, and no cache has anything of it.",
                f"Did you mean {near[0]}? See what there is: ungate cache ls" if near else "See: ungate cache ls",
            )


def _size(number: int) -> str:
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= length:
            return f"{number / length:.1f} {unit}"
    return f"{number} B"


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _listed(entries: Sequence[Entry], width: int) -> Iterator[RenderableType]:
    from rich.text import Text

    from ungate.cli._rows import listed

    if not entries:
        yield Text("No cache holds anything here.")
        return
    for root in dict.fromkeys(entry.root for entry in entries):
        theirs = [entry for entry in entries if entry.root == root]
        yield Text.assemble((theirs[0].cache, "bold"), (f"  {root}", "dim"))
        shared = theirs[0].note if len({entry.note for entry in theirs}) == 1 else ""
        if shared:
            yield Text(f"  {shared}", style="dim")
        cells: list[Sequence[str | Text]] = []
        for entry in theirs:
            why = "; ".join(filter(None, (entry.reason, "" if shared else entry.note)))
            cells.append(
                (
                    f" {entry.name}",
                    f"{entry.owner} {entry.version}".strip(),
                    entry.arch or "-",
                    _size(entry.size),
                    _age(time.time() - entry.changed),
                    Text(entry.state.value, style=_STYLE[entry.state.value]),
                    why,
                )
            )
        titles = (" entry", "owner", "arch", "size", "age", "state", "why")
        yield from listed(titles, cells, width, right=("size", "age"))
