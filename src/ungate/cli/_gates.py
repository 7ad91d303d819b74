"""Gates for a reader: grouped by file, open and closed for the target, with counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.text import Text

from ungate.model import Gate, ScanResult, Status, Target
from ungate.plain import counted
from ungate.scan.document import status

if TYPE_CHECKING:
    from ungate.host.packages import Package

__all__ = ["told"]

_MARK = {Status.OPEN: ("open", "green"), Status.CLOSED: ("closed", "red"), Status.UNKNOWN: ("?", "yellow")}
_WIDEST = 70


def _plain(text: str) -> str:
    """One line of a file's name: a line end or a control character in it is shown as it is escaped."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _short(text: str) -> str:
    text = _plain(text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _line(gate: Gate, target: Target | None) -> Text:
    word, style = _MARK[status(gate, target)] if target is not None else ("", "")
    line = Text(f"  {gate.line:>6}  ")
    line.append(f"{word:<7}", style=style)
    line.append(f" {_short(gate.condition)}")
    line.append(f"  {gate.passes}", style="dim" if gate.passes.decided else "yellow")
    if gate.role == "choice":
        line.append("  a choice of numbers", style="dim")
    if gate.symbol:
        line.append(f"  {gate.symbol}", style="dim cyan")
    return line


def told(
    result: ScanResult, gates: Sequence[Gate], target: Target | None, packages: Sequence[Package]
) -> Iterator[Text]:
    """The lines of the report."""
    several = len({gate.package for gate in gates}) > 1
    for (package, file), group in groupby(gates, key=lambda gate: (gate.package, gate.file)):
        yield Text(_plain(file), style="bold") + Text(f"  {package}" if several else "", style="dim")
        for gate in group:
            yield _line(gate, target)
    if gates:
        yield Text("")
    own = [gate for gate in result.gates if not gate.vendored] if len(gates) < len(result.gates) else gates
    counts = {each: sum(status(gate, target) is each for gate in own) for each in Status}
    names = ", ".join(f"{package.name} {package.version}".strip() for package in packages[:4])
    more = f" and {len(packages) - 4} more" if len(packages) > 4 else ""
    files = len({(gate.package, gate.file) for gate in gates})
    shown = f"{len(gates)} of {counted(len(own), 'gate')}" if len(gates) < len(own) else counted(len(gates), "gate")
    summary = Text(f"{shown} in {files} of {counted(result.files, 'source file')} of {names}{more}", style="bold")
    if target is not None:
        summary.append(f": {counts[Status.OPEN]} open, {counts[Status.CLOSED]} closed, ")
        summary.append(f"{counts[Status.UNKNOWN]} unknown for {target}")
    yield summary
    if target is None:
        yield Text("No GPU answers here and no --target was given: name one to see what is open (--target sm_120).")
    if result.vendored is None:
        yield Text("Third-party trees were not read; --vendored reads them.", style="dim")
    for each in result.unread:
        yield Text(_plain(f"not read: {each.file}: {each.reason}"), style="yellow")
    source = f", {result.cached} from the cache" if result.cached else ""
    yield Text(f"{result.seconds:.2f} s{source}", style="dim")
