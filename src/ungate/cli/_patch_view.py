"""A diff and the state of a patched environment, for a reader."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from ungate.model import Series, Target
from ungate.plain import counted

if TYPE_CHECKING:
    from ungate.patch.stack import Standing

__all__ = ["header", "refusals", "show_diff", "standing_lines", "target_words"]

_STATES = {"applied": "green", "gone": "yellow", "partly gone": "yellow", "disturbed": "bold red"}


def target_words(target: Target | str) -> str:
    """ " for sm_120", empty where a series names no target."""
    text = str(target)
    return f" for {text}" if text and text != "sm_0" else ""


def header(series: Series) -> Text:
    """One sentence: what the series changes, and which archs come along."""
    riders = sorted({arch for edit in series.edits for arch in edit.riders})
    line = Text(series.name, style="bold")
    line.append(
        f"{target_words(series.target)}: {counted(len(series.edits), 'edit')} in {counted(len(series.after), 'file')}"
    )
    if riders:
        line.append(
            f"; {', '.join(f'sm_{arch}' for arch in riders)} {'rides' if len(riders) == 1 else 'ride'} along",
            style="yellow",
        )
    return line


def refusals(series: Series) -> Iterator[Text]:
    """The gates that were asked for and not edited, each with its reason."""
    for gate, reason in series.refused:
        yield Text.assemble(("not opened  ", "yellow"), (f"{gate.file}:{gate.line}", "cyan"), f"  {reason}")


def show_diff(text: str) -> None:
    """On a terminal a coloured view; in a pipe the diff itself, byte for byte."""
    if not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
        return
    from ungate.cli.output import paper

    console = paper()
    for line in _coloured(text.splitlines()):
        console.print(line, soft_wrap=True)


def _coloured(lines: Sequence[str]) -> Iterator[Text]:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        if line.startswith("diff --git "):
            yield Text()
            yield Text(line.rsplit(" b/", 1)[-1], style="bold underline")
        elif line.startswith(("--- ", "+++ ")):
            continue
        else:
            yield Text(line, style=styles.get(line[:1], "dim"))


def standing_lines(states: Sequence[Standing]) -> Iterator[Text]:
    """The stack, the top first."""
    for each in reversed(states):
        line = Text(f"{each.state:11} ", style=_STATES[each.state])
        line.append(each.applied.name, style="bold")
        packages = ", ".join(f"{name} {version}" for name, version in sorted(each.applied.packages.items()))
        line.append(f"{target_words(each.applied.target)}, {counted(len(each.applied.files), 'file')} of {packages}")
        yield line
        for file in each.disturbed:
            yield Text(f"            {file} is neither as installed nor as the series wrote it", style="red")
