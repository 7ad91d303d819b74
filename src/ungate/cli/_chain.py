"""A chain of gates for a reader: numbered hops, each with what decides there."""

from __future__ import annotations

from collections.abc import Iterator

from rich.padding import Padding
from rich.text import Text

from ungate.model import Chain, Gate, Hop, Reached, Status, Target

__all__ = ["chain_lines", "gate_line"]

_STYLES = {Status.OPEN: "green", Status.CLOSED: "bold red", Status.UNKNOWN: "yellow"}
_SHOWN = 4  # open gates of one hop that are listed before the rest is counted


def gate_line(gate: Gate, target: Target) -> Text:
    """One gate: its word for the target, its line, its condition, the archs that pass."""
    status = gate.status(target)
    line = Text(f"{status.value:7}", style=_STYLES[status])
    line.append(f" line {gate.line}: ", style="dim")
    line.append(" ".join(gate.condition.split()))
    line.append(f"  ({gate.passes})", style="dim")
    if gate.reached in {Reached.NO, Reached.UNKNOWN}:
        line.append(f"  reached: {gate.reached.value}", style="dim")
    if gate.note:
        line.append(f"  {gate.note}", style="dim italic")
    return line


def _inside(text: Text) -> Padding:
    return Padding(text, (0, 0, 0, 4), expand=False)


def _hop(number: str, hop: Hop, target: Target) -> Iterator[Text | Padding]:
    head = Text(f"{number:>3} ", style="dim")
    head.append(hop.symbol, style="bold")
    head.append(f"  {hop.file}:{hop.line}", style="cyan")
    head.append(f"  {hop.kind}", style="dim")
    if hop.verified is None:
        head.append("  not verified", style="yellow")
    yield head
    if hop.note:
        yield _inside(Text(hop.note, style="dim"))
    closed = [gate for gate in hop.gates if gate.status(target) is not Status.OPEN]
    opened = [gate for gate in hop.gates if gate.status(target) is Status.OPEN]
    for gate in (*closed, *opened[:_SHOWN]):
        yield _inside(gate_line(gate, target))
    if len(opened) > _SHOWN:
        yield _inside(Text(f"and {len(opened) - _SHOWN} more, open", style="dim"))


def chain_lines(chain: Chain) -> Iterator[Text | Padding]:
    """The whole chain, the co-compiled units after it, and its notes."""
    for number, hop in enumerate(chain.hops, 1):
        yield from _hop(str(number), hop, chain.target)
    if chain.apart:
        yield Text("\nCompiled into the same module, not called by this engine", style="bold")
        for hop in chain.apart:
            yield from _hop("-", hop, chain.target)
    for note in chain.notes:
        yield Text(note, style="dim")
