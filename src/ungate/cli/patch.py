"""``ungate patch``: a reversible series over installed packages, in quilt's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ungate.cli.options import environment_options, json_option, target_option
from ungate.cli.output import document, notes, paper, progress
from ungate.errors import shell
from ungate.plain import counted

__all__ = ["patch"]


_policy_option = click.option(
    "--policy",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Open the feature of a policy only where the policy uses it; SERIES is then its recipe, if that is a file.",
)
_row_option = click.option(
    "--row-bytes",
    metavar="BYTES",
    type=click.IntRange(1),
    help="With --policy: bytes of one row of the message (hidden size x bytes an element), for tables of sizes.",
)


@click.group()
def patch() -> None:
    """Open gates in the installed packages, reversibly: all of a series or nothing, and every byte can be put back.

    A SERIES is a recipe's name or file, or a bundle. Series stack; only the top one pops.
    """


@patch.command()
@click.argument("series", required=False)
@target_option
@environment_options
@_policy_option
@_row_option
@json_option
def diff(
    series: str | None,
    target: str | None,
    site: Path | None,
    python: Path | None,
    policy: Path | None,
    row_bytes: int | None,
    as_json: bool,
) -> int:
    """Show what SERIES would change as a unified diff; without SERIES, what is pushed.

    In a pipe the diff is plain and `git apply` takes it at the packages' folder. No file is touched.
    """
    from rich.console import Console

    from ungate.cli._patch_view import header, refusals, show_diff
    from ungate.host.environment import resolve
    from ungate.patch.diff import unified

    environment = resolve(site, python)
    if series is None and policy is None:
        return _pushed_diff(environment, as_json)
    made, packages, _, unsaid, _ = _asked(series, policy, row_bytes, environment, target)
    text = unified(made, packages)
    if as_json:
        document({"series": made, "diff": text, "unsaid": unsaid})
        return 0
    console: Console = notes()
    console.print(header(made))
    for line in refusals(made):
        console.print(line)
    for each in unsaid:
        console.print(each, style="yellow", markup=False)
    show_diff(text)
    return 0


def _asked(
    series: str | None, policy: Path | None, row_bytes: int | None, environment: Any, target: str | None
) -> tuple[Any, Any, Any, tuple[str, ...], tuple[str, ...]]:
    """The series that was named, by itself or by a policy; what the policy could not say; how it is switched on."""
    from ungate.cli._patch_series import series_for, series_of_policy

    if series is None and policy is None:
        raise click.UsageError("Name a SERIES, or a policy: --policy FILE.")
    with progress() as report:
        if policy is None:
            assert series is not None
            return *series_for(series, environment, target, report), (), ()
        made, packages, found, read, unsaid = series_of_policy(policy, environment, target, row_bytes, report, series)
    switched = (*(f"{name}={value}" for name, value in read.environment.items()), *read.arguments)
    return made, packages, found, tuple(f"not written: {each}" for each in unsaid), switched


def _pushed_diff(environment: Any, as_json: bool) -> int:
    from ungate.cli._patch_series import patched_roots
    from ungate.cli._patch_view import show_diff
    from ungate.patch.diff import file_diff
    from ungate.patch.stack import applied, contents

    texts = {}
    for root in patched_roots(environment):
        for each in applied(root):
            parts = (file_diff(file, old, new) for file, (old, new) in sorted(contents(each, root).items()))
            texts[each.name] = "".join(parts)
    if as_json:
        document([{"series": name, "diff": text} for name, text in texts.items()])
        return 0
    if not texts:
        notes().print("Nothing is pushed here. Name a series to see what it would change: ungate patch diff RECIPE")
    show_diff("".join(texts.values()))
    return 0


@patch.command()
@click.argument("series", required=False)
@target_option
@environment_options
@click.option("--wait", default=60.0, metavar="SECONDS", help="How long to wait for another push to end (60).")
@_policy_option
@_row_option
@json_option
def push(
    series: str | None,
    target: str | None,
    site: Path | None,
    python: Path | None,
    wait: float,
    policy: Path | None,
    row_bytes: int | None,
    as_json: bool,
) -> int:
    """Write SERIES into the installed packages: all of it or nothing.

    The edits are scanned again first. A second push does nothing and says so. With --policy FILE the gates open only
    for the requests in flight and the ranks that the policy measured, where the code has a place for them.
    """
    from ungate.cli._patch_series import checked
    from ungate.host.environment import resolve
    from ungate.patch import stack

    environment = resolve(site, python)
    made, packages, found, unsaid, switched = _asked(series, policy, row_bytes, environment, target)
    with progress() as report:
        words = [
            "ungate patch diff",
            *([shell(series)] if series else []),
            *(["--policy", shell(policy)] if policy else []),
        ]
        checked(made, packages, found, " ".join(words), report)
        pushed = stack.push(made, packages, deadline_s=wait)
    standing = stack.applied(pushed.root) if not pushed.done else ()
    # What it opens is open: nothing then tells the bounds and the target of the one that stands from this one's.
    named = any(each.name == made.name for each in standing)
    alike = named and not made.edits and not made.after
    note = "it is pushed already" if named else pushed.note
    if alike:
        note = "a series of this name is pushed, and each gate that this one opens is open"
    if as_json:
        told = {"pushed": pushed.done, "note": note, "root": pushed.root, "series": made, "dropped": pushed.dropped}
        document({**told, "unsaid": unsaid, "switched_on_by": switched})
        return 0
    console = paper()
    for name in pushed.dropped:
        console.print(f"'{name}' is no longer there: its packages were installed anew.", style="yellow", markup=False)
    if not pushed.done:
        console.print(f"Nothing was changed by '{made.name}': {note}.", markup=False)
        if alike:
            again = f"ungate patch pop --site {shell(pushed.root)}"
            console.print(f"For other bounds or another target, pop that one first: {again}", markup=False)
        return 0
    from ungate.cli._patch_view import header, refusals

    console.print(header(made))
    for line in refusals(made):
        console.print(line)
    for each in unsaid:
        console.print(each, style="yellow", markup=False)
    for file in pushed.files:
        console.print(f"  {file}", style="cyan", markup=False)
    if switched:
        console.print(f"The server needs: {' '.join(switched)}", markup=False, soft_wrap=True)
    console.print(f"Pushed into {pushed.root}. To undo: ungate patch pop --site {shell(pushed.root)}", markup=False)
    return 0


@patch.command()
@click.option("--all", "everything", is_flag=True, help="Pop every series, the top one first.")
@environment_options
@json_option
def pop(everything: bool, site: Path | None, python: Path | None, as_json: bool) -> int:
    """Take the top series back; every byte is as it was before its push."""
    from ungate.cli._patch_series import named, patched_roots, top_root
    from ungate.host.environment import resolve
    from ungate.patch import stack

    environment = resolve(site, python)
    popped = []
    while True:
        root = top_root(environment)
        names = {name for each in stack.applied(root) for name in each.packages}
        packages = named(environment, names)
        states = stack.standing(root, packages)
        found = stack.pop(root, packages)
        if found is not None:
            popped.append((found, root, states[-1].ours if states else ()))
        if not everything or not any(stack.applied(root) for root in patched_roots(environment)):
            break
    if as_json:
        document([{"series": each, "root": root, "restored": restored} for each, root, restored in popped])
        return 0
    for each, root, restored in popped:
        said = f"{counted(len(restored), 'file')} as before"
        if gone := len(each.files) - len(restored):
            said += f", {counted(gone, 'file')} installed anew or removed since the push and left alone"
        paper().print(f"Popped '{each.name}' from {root}: {said}.", markup=False)
    return 0


@patch.command()
@environment_options
@json_option
def applied(site: Path | None, python: Path | None, as_json: bool) -> int:
    """List the pushed series, the first pushed first."""
    from ungate.cli._patch_series import patched_roots
    from ungate.host.environment import resolve
    from ungate.patch import stack

    found = [(each, root) for root in patched_roots(resolve(site, python)) for each in stack.applied(root)]
    if as_json:
        document([{"series": each, "root": root} for each, root in found])
        return 0
    for each, _ in found:
        paper().print(each.name, markup=False)
    return 0


@patch.command()
@click.argument("distributions", nargs=-1)
@environment_options
@click.option("--reread", is_flag=True, help="Read every file, also those that no one wrote since the last time.")
@json_option
def status(distributions: tuple[str, ...], site: Path | None, python: Path | None, reread: bool, as_json: bool) -> int:
    """Is this environment as it was installed? Which series are pushed, and what else differs from RECORD?

    Looks at DISTRIBUTIONS, without them at those that recipes and pushed series name. A file whose size, times and
    inode are as they were when it was last compared is not read again.
    """
    from ungate.cli._patch_status import show, survey
    from ungate.host.environment import resolve

    found = survey(resolve(site, python), distributions, remembered=not reread)
    if as_json:
        document(found)
    else:
        show(found)
    return 0


@patch.command()
@environment_options
@json_option
def refresh(site: Path | None, python: Path | None, as_json: bool) -> int:
    """Make edits by hand, in files of the top series, part of it; the files are not touched."""
    from ungate.cli._patch_series import named, top_root
    from ungate.host.environment import resolve
    from ungate.patch import stack

    environment = resolve(site, python)
    root = top_root(environment)
    names = {name for each in stack.applied(root) for name in each.packages}
    found, moved = stack.refresh(root, named(environment, names))
    if as_json:
        document({"series": found, "files": moved})
        return 0
    said = f"now takes {', '.join(moved)} as edited" if moved else "had nothing to take in"
    paper().print(f"'{found.name}' {said}.", markup=False)
    return 0


@patch.command()
@environment_options
@json_option
def recover(site: Path | None, python: Path | None, as_json: bool) -> int:
    """Finish, or take back, a push or pop that was cut short."""
    from ungate.cli._patch_series import patched_roots
    from ungate.host.environment import resolve
    from ungate.patch import stack

    outcomes = [(stack.recover_all(root), root) for root in patched_roots(resolve(site, python))]
    if as_json:
        document([{"root": root, "outcome": outcome} for outcome, root in outcomes])
        return 1 if any(outcome.disturbed for outcome, _ in outcomes) else 0
    words = {"forward": "was finished", "back": "was taken back", "nothing": ""}
    spoke = False
    for outcome, root in outcomes:
        if outcome.direction != "nothing":
            paper().print(f"The {outcome.what} in {root} {words[outcome.direction]}.", markup=False)
            spoke = True
        for file in outcome.disturbed:
            paper().print(f"{root / file} was changed by someone else and left alone.", style="red", markup=False)
    if not spoke:
        paper().print("Nothing was cut short here.")
    return 1 if any(outcome.disturbed for outcome, _ in outcomes) else 0


@patch.command()
@click.argument("series")
@target_option
@environment_options
@click.option("--bundle", metavar="FILE", type=click.Path(path_type=Path), help="Write a bundle for other nodes.")
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Write the diff there, not to stdout.")
@click.option("--checkout", is_flag=True, help="Paths as in the projects' own repositories, for git apply there.")
def export(
    series: str,
    target: str | None,
    site: Path | None,
    python: Path | None,
    bundle: Path | None,
    output: Path | None,
    checkout: bool,
) -> int:
    """Write SERIES (also a pushed one, by name) as a unified diff or as a bundle."""
    from ungate.cli._patch_export import exported
    from ungate.cli._patch_view import show_diff
    from ungate.host.environment import resolve
    from ungate.host.files import write

    with progress() as report:
        text = exported(series, resolve(site, python), target, report, bundled=bundle is not None, checkout=checkout)
    if place := bundle or output:
        write(place.absolute(), text.encode("utf-8", "surrogateescape"))
        notes().print(f"Written to {place}.", markup=False)
    else:
        show_diff(text)
    return 0


@patch.command(name="import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="What the series is called; the file's name without it.")
@click.option("--moved", is_flag=True, help="A hunk may stand at another line where its text is unique.")
@click.option("--dry-run", is_flag=True, help="Show the diff against the installed files and push nothing.")
@environment_options
@json_option
def import_(
    file: Path, name: str | None, moved: bool, dry_run: bool, site: Path | None, python: Path | None, as_json: bool
) -> int:
    """Push a foreign .patch FILE as a series: every line of it must fit, and pop takes it back."""
    from ungate.cli._patch_export import imported
    from ungate.cli._patch_view import show_diff
    from ungate.host.environment import resolve
    from ungate.patch import stack
    from ungate.patch.diff import unified

    found, packages = imported(file, name or file.stem, resolve(site, python), moved=moved)
    text = unified(found.series, packages)
    pushed = None if dry_run else stack.push(found.series, packages)
    if as_json:
        document(
            {"series": found.series, "already": found.already, "pushed": bool(pushed and pushed.done), "diff": text}
        )
        return 0
    for each in found.already:
        notes().print(f"{each} has the patch's changes already.", style="dim", markup=False)
    if dry_run:
        show_diff(text)
    elif pushed and pushed.done:
        paper().print(
            f"Pushed '{found.series.name}': {counted(len(pushed.files), 'file')} in {pushed.root}.", markup=False
        )
    else:
        paper().print(f"Nothing was changed by '{found.series.name}': {pushed.note if pushed else ''}.", markup=False)
    return 0
