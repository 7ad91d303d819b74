"""Chains for a reader: what holds the target back first, then the hops, numbered, from the flag to the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ungate.model import Chain, Gate, Hop, Reached, Status, Target
from ungate.plain import chain as chain_record

if TYPE_CHECKING:
    from ungate.host.packages import Package

__all__ = ["chain_told", "chains_document", "told"]

_STYLES = {Status.OPEN: "green", Status.CLOSED: "bold red", Status.UNKNOWN: "yellow"}
_INDENT = 14
_LONGEST = 96


def told(
    question: str, chains: Sequence[Chain], packages: Sequence[Package], target: Target, *, everything: bool = False
) -> Iterator[RenderableType]:
    """Everything that ``ungate why`` prints for a person."""
    where = ", ".join(f"{package.name} {package.version}".strip() for package in packages)
    yield Text.assemble((question, "bold"), (f"  for {target}", "bold"), (f"  in {where}", "dim"))
    for number, chain in enumerate(chains, 1):
        yield Text("")
        if len(chains) > 1:
            yield Text(f"Way {number} of {len(chains)}", style="bold underline")
        yield from chain_told(chain, everything=everything)


def chain_told(chain: Chain, *, everything: bool = False) -> Iterator[RenderableType]:
    """One chain: what holds the target back, the hops in order, what is built beside them, the notes."""
    yield from _summary(chain)
    yield Text("")
    for place, hop in enumerate(chain.hops, 1):
        yield from _hop(f"{place:>2}", hop, chain.target, last=place == len(chain.hops), everything=everything)
    if chain.apart:
        yield Text("\nBuilt beside it, not on this way", style="bold")
        for hop in chain.apart:
            yield from _hop(" ·", hop, chain.target, last=True, everything=everything)
    for note in chain.notes:
        yield Text(note, style="dim")


def _summary(chain: Chain) -> Iterator[Text]:
    """What can never be opened by an edit, then what is closed, then what could not be verified."""
    for hop in (hop for hop in chain.hops if hop.blocker):
        where = _place(hop) or hop.symbol
        yield Text.assemble(("Terminal", "bold red"), f" at {where}: {hop.blocker}.")
    met = [gate for hop in chain.hops for gate in hop.gates if gate.reached is not Reached.NO]
    branches = [gate for gate in met if gate.role == "branch"]
    met = [gate for gate in met if gate.role not in ("branch", "choice")]
    closed = [gate for gate in met if gate.status(chain.target) is Status.CLOSED]
    places = ", ".join(f"{gate.file}:{gate.line}" + _by_default(gate) for gate in closed)
    if any(gate.status(chain.target) is Status.CLOSED for gate in branches):
        yield _branch(branches, chain.target)
    elif closed:
        count = "one place" if len(closed) == 1 else f"{len(closed)} places"
        yield Text.assemble(("Closed", "bold red"), f" for {chain.target} in {count} on this way: {places}.")
    elif branches:
        yield _branch(branches, chain.target)
    elif any(gate.status(chain.target) is Status.OPEN for gate in met):
        yield Text.assemble(("Open", "green"), f" for {chain.target} in every place on this way that was found.")
    elif all(hop.kind == "kernel" for hop in chain.hops):
        yield Text("No gate of these packages decides about this text.")
    else:
        yield Text(
            f"No gate was found on this way, which does not say that {chain.target} is let through.", style="yellow"
        )
    lost = sum(1 for hop in chain.hops if hop.verified is None)
    if lost:
        yield Text(f"{lost} of {len(chain.hops)} steps could not be verified in the code.", style="yellow")


def _branch(gates: Sequence[Gate], target: Target) -> Text:
    """The message stands in a branch that only some archs come to."""
    away = [gate for gate in gates if gate.status(target) is Status.CLOSED]
    places = ", ".join(f"{gate.file}:{gate.line}" for gate in away or gates)
    if away:
        told = f"{target} does not come to this message: it stands in a branch of {away[0].passes} alone ({places})."
        return Text(told, style="yellow")
    return Text.assemble(
        ("Refused", "bold red"),
        f" in a branch that {target} comes to by {places}; what is refused there the other conditions say.",
    )


def _place(hop: Hop) -> str:
    """Where a hop stands; a binary has no lines."""
    return f"{hop.file}:{hop.line}" if hop.file and hop.line else hop.file


def _by_default(gate: Gate) -> str:
    return " (the default only)" if gate.role == "default" else ""


def _hop(number: str, hop: Hop, target: Target, *, last: bool, everything: bool) -> Iterator[RenderableType]:
    rail = " " if last else "│"
    head = Text.assemble((f"{number} ", "dim"), (f"{hop.kind:<11}", "cyan"), (hop.symbol or hop.file, "bold"))
    if hop.verified is None:
        head.append("  not verified", style="yellow")
    yield head
    where = _place(hop)
    if where or hop.note:
        yield _line(rail, Text.assemble((where, "cyan"), ("   " if where and hop.note else ""), (hop.note, "dim")))
    if hop.blocker:
        yield _line(rail, Text.assemble(("terminal ", "bold red"), hop.blocker))
    shown = [
        gate for gate in hop.gates if everything or gate.role == "branch" or gate.status(target) is not Status.OPEN
    ]
    alike: dict[tuple[str, str, Reached | None, str], list[Gate]] = {}
    for gate in shown:
        alike.setdefault((gate.condition, str(gate.passes), gate.reached, gate.role), []).append(gate)
    for gates in alike.values():
        yield _line(rail, _gate(gates, target))
    rest = len(hop.gates) - len(shown)
    if rest:
        word = "condition" if rest == 1 else "conditions"
        yield _line(rail, Text.assemble(("open    ", "green"), (f"{rest} {word} let {target} through", "dim")))
    for test in hop.tests:
        place, _, text = test.partition(" ")
        line = place.rpartition(":")[2]
        yield _line(rail, Text(f"also needs  :{line} {text}", style="dim"))
    if not last:
        yield Text(f" {rail}", style="dim")


def _line(rail: str, text: Text) -> RenderableType:
    grid = Table.grid(padding=0)
    grid.add_column(width=_INDENT)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f" {rail}", style="dim"), text)
    return grid


def _gate(gates: Sequence[Gate], target: Target) -> Text:
    """Gates of one file that test the same and are met alike."""
    gate = gates[0]
    status = gate.status(target)
    condition = " ".join(gate.condition.split())
    condition = condition if len(condition) <= _LONGEST else condition[: _LONGEST - 1] + "…"
    lines = " ".join(f":{each.line}" for each in gates)
    line = Text.assemble((f"{status.value:<8}", _STYLES[status]), (f"{lines} ", "cyan"))
    if len(gates) > 1:
        line.append(f"{len(gates)} times ", style="bold")
    line.append(condition)
    line.append(f"   lets through {gate.passes}", style="dim")
    if gate.reached is not None and gate.reached is not Reached.YES:
        line.append(f"   reached: {gate.reached.value}", style="dim")
    said = {"default": "decides the default only", "branch": "the message stands in its branch"}.get(gate.role)
    if said:
        line.append(f"   {said}", style="dim")
    return line


def chains_document(
    question: str, chains: Sequence[Chain], packages: Sequence[Package], target: Target
) -> dict[str, Any]:
    """``asked``, ``target``, ``packages``, ``chains`` (each with ``feature``, ``hops``, ``apart``, ``notes``) and
    ``known`` (public results, empty where none is stored)."""
    return {
        "asked": question,
        "target": str(target),
        "packages": [{"name": package.name, "version": package.version} for package in packages],
        "chains": [chain_record(chain) for chain in chains],
        "known": [],
    }
