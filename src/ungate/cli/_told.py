"""A run for a reader: what was found, changed, proved and decided, in the order it happened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ungate.cli._why import chain_told
from ungate.model import Decision, Finding, Series, Target, Verdict
from ungate.pipeline.ending import early_ends
from ungate.pipeline.records import Records, Request
from ungate.plain import counted

__all__ = ["findings", "told"]

_SEVERITY = {"terminal": "bold red", "danger": "red", "warning": "yellow", "note": "dim"}
_DECISION = {Decision.KEEP: "bold green", Decision.REVERT: "bold red", Decision.INCONCLUSIVE: "bold yellow"}


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold underline")


def findings(found: Sequence[Finding]) -> Iterator[RenderableType]:
    """Each finding with its place and its advice."""
    for finding in found:
        line = Text(f"{finding.severity:8}", style=_SEVERITY.get(finding.severity, ""))
        line.append(f" {finding.what}")
        if finding.file:
            line.append(f"  {finding.file}:{finding.line}", style="cyan")
        yield line
        yield Padding(Text(finding.advice, style="dim"), (0, 0, 0, 9), expand=False)


def _edits(series: Series, target: Target) -> Iterator[Text]:
    riders = sorted({arch for edit in series.edits for arch in edit.riders})
    edits, files = counted(len(series.edits), "edit"), counted(len(series.after), "file")
    yield Text(f"{edits} in {files} open{'s' if len(series.edits) == 1 else ''} {target}" + _along(riders))
    for gate, why in series.refused:
        yield Text(f"not opened: {gate.file}:{gate.line}: {why}", style="yellow")


def _along(riders: Sequence[int]) -> str:
    if not riders:
        return "; every other architecture behaves as before."
    names = ", ".join(f"sm_{arch}" for arch in riders)
    return f"; {names} comes along, because a gate's form cannot express less. All others behave as before."


def _diff(text: str) -> Iterator[Text]:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.splitlines():
        style = "bold" if line.startswith(("---", "+++")) else styles.get(line[:1], "dim")
        yield Text(line, style=style)


def _verdicts(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    several = len({verdict.arm for verdict in verdicts}) > 1
    for verdict in verdicts:
        line = Text(verdict.decision.value.upper(), style=_DECISION[verdict.decision])
        line.append(f"  {verdict.cell}  {verdict.arm + '  ' if several else ''}", style="dim")
        if verdict.ratio is not None:
            line.append(f"{(verdict.ratio - 1) * 100:+.1f} %", style="bold")
        if verdict.low is not None and verdict.high is not None:
            low, high = (verdict.low - 1) * 100, (verdict.high - 1) * 100
            line.append(f"  ({low:+.1f} % to {high:+.1f} % at {verdict.level * 100:.1f} %, {verdict.pairs} pairs)")
        yield line
        yield Padding(Text(verdict.reason), (0, 0, 0, 2), expand=False)
        if verdict.diagnosis:
            yield Padding(Text(verdict.diagnosis, style="italic"), (0, 0, 0, 2), expand=False)


def _guards(records: Records) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    words = {True: ("holds", "green"), False: ("does not hold", "red"), None: ("not established", "yellow")}
    several = len({guard.arm for guard in records.guards}) > 1
    for guard in records.guards:
        word, style = words[guard.holds]
        name = f"{guard.name} ({guard.arm})" if several else guard.name
        table.add_row(Text(word, style=style), name, Text(guard.evidence, style="dim"))
    return table


def told(request: Request, records: Records, following: Sequence[str]) -> Iterator[RenderableType]:
    """Everything a run has to say; the stages that did not run are left out."""
    where = ", ".join(f"{package.name} {package.version}" for package in records.packages)
    yield Text(f"{request.recipe.name} for {request.target}", style="bold")
    yield Text(f"{request.recipe.summary}", style="dim")
    if records.scan is not None:
        scan = records.scan
        yield Text(
            f"{where}: {counted(len(scan.gates), 'gate')} in {counted(scan.files, 'file')}, {scan.seconds:.2f} s",
            style="dim",
        )
        for unread in scan.unread:
            yield Text(f"not read: {unread.file}: {unread.reason}", style="yellow")
    if records.chain is not None:
        yield _title("From flag to kernel")
        yield from chain_told(records.chain)
    if records.findings:
        yield _title("Checks")
        yield from findings(records.findings)
    if records.elsewhere:
        yield _title("Further arms")
        for there in records.elsewhere:
            where = ", ".join(f"{name} {version}" for name, version in there.packages)
            yield Text(f"{there.arm}: {'; '.join(filter(None, (where, there.said)))}.")
    if records.series is not None:
        yield _title("Edits, in a private copy")
        yield from _edits(records.series, request.target)
        yield from _diff(records.diff)
        yield Text(
            f"\nThe copy was scanned again: every edited gate lets {request.target} through, no other gate changed."
        )
        for name, count in records.pristine:
            yield Text(f"The installed {name} is untouched: {count} files are byte for byte as its RECORD says.")
        if records.overlay is not None:
            yield Text(f"Overlay: {records.overlay.root}", style="dim")
    if records.artifacts:
        yield _title("Build")
        for artifact in records.artifacts:
            body = "kernels unknown" if artifact.kernels is None else counted(artifact.kernels, "kernel")
            hollow = "hollow unknown" if artifact.hollow is None else f"{artifact.hollow} hollow"
            yield Text(f"{artifact.path.name} for {artifact.target}: {body}, {hollow}, {artifact.seconds:.1f} s")
    if records.guards:
        yield _title("Proofs")
        yield _guards(records)
    if records.verdicts:
        yield _title("Verdict")
        if records.plan is not None:
            yield Text(records.plan.sentence, style="dim")
        yield from _verdicts(records.verdicts)
        for sentence in early_ends(records.starts):
            yield Text(sentence, style="dim")
    if records.ablations:
        yield _title("Why it lost")
        yield Text(records.cause)
        for ablation in records.ablations:
            yield Padding(Text(ablation.said, style="dim"), (0, 0, 0, 2), expand=False)
    yield _title("Next")
    for sentence in following:
        yield Text(f"- {sentence}")
    if records.page is not None:
        yield Text(f"Report: {records.page}", style="bold")
