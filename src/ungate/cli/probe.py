"""``ungate probe``: single operations on this machine, every candidate checked before it is timed."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ungate.cli.options import environment_options, json_option
from ungate.cli.output import document, notes, paper, progress
from ungate.errors import Exit

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ungate.judge.fastest import Choice
    from ungate.pipeline.probing import Probe
    from ungate.probe.records import Cell, Measured

__all__ = ["probe", "told"]

_SIZES = "4K,16K,64K,256K,1M"
_LARGEST = 64 << 20  # bytes of a message; the sums that it is compared with take twelve times that
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}
_DTYPES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "bfloat16": "bfloat16",
    "float16": "float16",
    "float32": "float32",
}
_STALL = 1.5  # times the median, which a server would meet as a pause
_UUID = re.compile(r" (?:GPU-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_STYLES = {"ok": "green", "wrong": "bold red", "hung": "bold red", "crashed": "bold red", "failed": "red"}


class _Sizes(click.ParamType[tuple[int, ...]]):
    """Bytes, with K and M for 1024 and 1048576, separated by commas."""

    name = "sizes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        found = []
        for word in str(value).split(","):
            match = re.fullmatch(r"(\d{1,10})([KM]?)(?:i?B)?", word.strip(), re.IGNORECASE)
            size = int(match[1]) * _UNITS[match[2].upper()] if match else 0
            if not 0 < size <= _LARGEST or size % 16:
                self.fail(f"{word.strip()!r} is no size: give multiples of 16 bytes up to 64M, such as {_SIZES}.")
            found.append(size)
        return tuple(sorted(dict.fromkeys(found)))


@click.group()
def probe() -> None:
    """Single operations on this machine: every candidate checked against a known result, then timed."""


@probe.command()
@environment_options
@click.option("--world", type=click.IntRange(2, 64), metavar="N", help="Ranks; without it one for each GPU.")
@click.option("--sizes", type=_Sizes(), default=_SIZES, show_default=True, help="Bytes of a message, for each rank.")
@click.option("--dtype", type=click.Choice(list(_DTYPES)), default="bf16", show_default=True)
@click.option(
    "--device",
    type=click.Choice(["auto", "cuda", "cpu"]),
    default="auto",
    show_default=True,
    help="Where the tensors lie; auto takes the GPUs where there are two.",
)
@click.option("--candidate", "names", multiple=True, metavar="NAME", help="Only this one and the baseline; repeatable.")
@click.option("--rounds", type=click.IntRange(2, 100), default=8, show_default=True, help="Turns of each candidate.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(1.0),
    default=120.0,
    show_default=True,
    metavar="S",
    help="Seconds for each step of each candidate; what compiles at its first use has 300 or 900.",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Keep the document here.")
@json_option
def allreduce(
    site: Path | None,
    python: Path | None,
    world: int | None,
    sizes: tuple[int, ...],
    dtype: str,
    device: str,
    names: tuple[str, ...],
    rounds: int,
    timeout_s: float,
    out: Path | None,
    as_json: bool,
) -> int:
    """Find which allreduce is right and fastest on this machine, for each message size.

    Every candidate that the environment offers runs in processes of its own, which are ended when they hang. Its sums
    are compared with a sum computed on the host, before and while it is timed, and between the ranks bit for bit; one
    wrong sum disqualifies it. The candidates take turns, and where nothing is clear the baseline stays: NCCL, or gloo
    on the CPU.

    The ranks are started in the Python that serves, which needs PyTorch. Exit code 3 when no candidate gave a verified
    time.
    """
    from ungate.host import environment
    from ungate.pipeline import probing
    from ungate.probe.records import Request

    request = Request(
        sizes=sizes,
        dtype=_DTYPES[dtype],
        world=world or 0,
        device=device,
        names=names,
        timeout_s=timeout_s,
        rounds=rounds,
    )
    if out is not None:
        _writable(out)
    with progress(quiet=as_json) as report:
        found = probing.probe(environment.resolve(site, python), request, report)
    if out is not None:
        probing.save(found, out)
    if as_json:
        document(probing.document(found))
    else:
        console = paper()
        for part in told(found, console.width):
            console.print(part)
        if out is not None:
            console.print(f"Kept in {out}.", markup=False, style="dim", soft_wrap=True)
    if not found.ran:
        notes().print("No candidate gave a verified time; the reasons stand with each of them.", markup=False)
        return Exit.ERROR
    return Exit.DONE


def _writable(out: Path) -> None:
    """Refusal before minutes are spent on what cannot be kept."""
    from ungate.errors import Refusal, shell

    if not out.absolute().parent.is_dir():
        raise Refusal(f"The folder of {out} does not exist.", f"Make it: mkdir -p {shell(out.absolute().parent)}")


def _size(size: int) -> str:
    for unit, length in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size % length == 0:
            return f"{size // length} {unit}"
    return f"{size} B"


def _us(cell: Cell) -> str:
    if cell.state.value != "ok" or not cell.us:
        return cell.state.value
    middle = statistics.median(cell.us)
    return f"{middle:.{2 if middle < 10 else 1 if middle < 100 else 0}f}"


def _spread(cell: Cell) -> float:
    return (max(cell.us) - min(cell.us)) / statistics.median(cell.us) if len(cell.us) > 1 else 0.0


def _stalled(cell: Cell) -> str:
    """How many rounds took far longer than the median, which hides them; empty without any."""
    from ungate.plain import counted

    if cell.state.value != "ok" or not cell.us:
        return ""
    middle = statistics.median(cell.us)
    long = [each for each in cell.us if each > _STALL * middle]
    if not long:
        return ""
    return f"{_size(cell.size)}: {len(long)} of {counted(len(cell.us), 'round')} took up to {max(long):.0f} us a call."


def told(found: Probe, width: int) -> Iterator[RenderableType]:
    """What a probe found, for a terminal of that width."""
    from rich.text import Text

    from ungate.cli._rows import listed
    from ungate.plain import counted

    facts, request = found.survey.facts, found.request
    where = (
        f"{counted(facts.world, 'rank')} on the CPU"
        if facts.device == "cpu"
        else ", ".join(dict.fromkeys(_UUID.sub("", each) for each in facts.gpus)) + f", {counted(facts.world, 'rank')}"
    )
    yield Text.assemble(("allreduce", "bold"), f" of {request.dtype}, {where}; PyTorch {facts.torch}", _nccl(found))
    ran = [each for each in found.measured if each.cells and each.state.value != "unavailable"]
    titles = ("us a call", *(_size(size) for size in request.sizes))
    rows = [
        (
            Text(each.entrant.name, style=_STYLES.get(each.state.value, "")),
            *(
                Text(_us(cell), style=_STYLES.get(cell.state.value, "") if cell.state.value != "ok" else "")
                for cell in each.cells
            ),
        )
        for each in ran
    ]
    rows.append((Text("use", style="bold"), *(Text(_use(choice), style="bold") for _, choice in found.policy)))
    yield from listed(titles, rows, width, right=titles[1:])
    yield Text("")
    for size, choice in found.policy:
        yield Text(f"{_size(size):>8}  {choice.reason if choice else 'nothing was verified'}{_interval(choice)}")
    spread, widest = max(
        (
            (_spread(cell), f"{each.entrant.name} at {_size(cell.size)}")
            for each in ran
            for cell in each.cells
            if cell.state.value == "ok"
        ),
        default=(0.0, ""),
    )
    apart = f"; the rounds lie up to {spread * 100:.0f} % of it apart ({widest})" if widest else ""
    yield Text(f"Medians of {counted(request.rounds, 'round')} in turn, the slower rank{apart}.", style="dim")
    for each in ran:
        yield from _notes(each)
    absent = [each for each in found.measured if each not in ran]
    for reason in dict.fromkeys(each.reason for each in absent):
        names = ", ".join(each.entrant.name for each in absent if each.reason == reason)
        yield Text.assemble((names, "bold"), "  ", ("unavailable", "yellow"), f"  {reason}")


def _nccl(found: Probe) -> str:
    facts = found.survey.facts
    if facts.device == "cpu":
        return ""
    peer = {True: "peer access", False: "no peer access", None: "peer access unknown"}[facts.peer]
    return f", NCCL {facts.nccl or 'none'}, {peer}"


def _use(choice: Choice | None) -> str:
    return "-" if choice is None else choice.use


def _interval(choice: Choice | None) -> str:
    if choice is None or choice.ratio is None or choice.low is None or choice.high is None:
        return ""
    return f" (x{choice.ratio:.2f}, {choice.low:.2f} to {choice.high:.2f} at {choice.level * 100:.1f} %)"


def _notes(each: Measured) -> Iterator[RenderableType]:
    from rich.text import Text

    state = each.state.value
    if state == "ok":
        yield Text.assemble((each.entrant.name, "bold"), f"  {each.entrant.what}. To use it: {each.entrant.how}.")
    else:
        yield Text.assemble(
            (each.entrant.name, "bold"), "  ", (state, _STYLES.get(state, "yellow")), f"  {each.reason}"
        )
    refused = [cell for cell in each.cells if cell.state.value == "refused"] if state != "refused" else []
    stalled = [text for cell in each.cells if (text := _stalled(cell))]
    for text in (*(f"{_size(cell.size)}: {cell.reason}" for cell in refused), *stalled, *each.notes, *each.log[-6:]):
        yield Text(f"  {text}", style="dim")
