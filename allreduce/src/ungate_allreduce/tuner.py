"""Measured choices: every candidate is checked against the reference before its time counts.

A stale read is wrong *and* fast, so an unchecked tuner would choose it. Times are those of a graph node, the
largest over ranks, with NCCL in the same harness; "keep NCCL" is an answer.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from . import __version__
from .measure import capture
from .plan import Choice, Table, realise
from .primitives import launch
from .screen import EPSILON, KINDS, draw
from .trial import Expected, Trial
from .variant import Dtype, Line, Variant
from .workspace import Workspace

__all__ = [
    "Case",
    "Measured",
    "aligned_us",
    "choices",
    "decide",
    "fingerprint",
    "paused",
    "screen",
    "time_choice",
    "tune",
]

NODES = 100
SAMPLES = 7
MARGIN = 0.97
"""NCCL is replaced only where a candidate takes less than this share of NCCL's time: ties keep what is there."""


@dataclass(frozen=True)
class Case:
    """One message to tune: ``hidden`` 0 is plain allreduce of ``rows`` elements."""

    dtype: Dtype
    rows: int
    hidden: int = 0

    @property
    def size(self) -> int:
        """Bytes a rank."""
        return self.rows * max(self.hidden, 1) * self.dtype.size

    @property
    def pattern(self) -> str:
        """Name in the table."""
        return "fused" if self.hidden else "plain"


@dataclass(frozen=True)
class Measured:
    """A candidate's result on a case: microseconds (largest over ranks), or why it was not timed."""

    case: Case
    choice: Choice
    us: float | None
    reason: str = ""


def choices(world: int, case: Case, lines: Iterable[Line] = (Line.LL8, Line.F16)) -> list[Choice]:
    """Launch shapes worth timing: from one block to about 128."""
    out: list[Choice] = []
    for line, shots, threads in product(lines, (1, 2) if world >= 4 else (1,), (128, 256, 512)):
        count = max(1, case.size // (4 * int(line)))
        base = Choice(line=int(line), shots=shots, threads=threads)
        for parts in (1, 2, 4, 8):
            if case.hidden:
                a_row = count // case.rows
                held = -(-a_row // (parts * threads))
                if case.rows * parts > 128 or (parts > 1 and a_row < parts * threads // 2) or held * int(line) > 16:
                    continue
                chosen = replace(base, split=parts)
            else:
                held = parts
                if count > threads * parts * 128 or (parts > 1 and count < threads * parts) or held * int(line) > 16:
                    continue
                chosen = replace(base, vec=parts)
            out.append(chosen)
            # Reads behind the push pay where the bytes do: several lines a thread of a message beyond 32 KiB.
            if shots == 1 and held >= 4 and (world - 1) * held <= 16 and case.size >= 32 << 10:
                out.append(replace(chosen, lag=1))
    return out


PAUSES = (400, 800, 1600)
"""Clock cycles before the first poll worth trying: a fifth to four fifths of a microsecond at current clocks."""


BEST = 3
"""Launch shapes whose pauses are tried."""


def paused(choice: Choice) -> list[Choice]:
    """The same launch with pauses before the first poll; worth trying for the best of :func:`choices` only."""
    return [replace(choice, pause=pause) for pause in PAUSES] if choice.shots == 1 and not choice.pause else []


def _variant(workspace: Workspace, case: Case, choice: Choice) -> Variant:
    push = workspace.slots.transport == "push"
    return realise(choice, workspace.world, case.dtype, case.rows, hidden=case.hidden, push=push)


def screen(workspace: Workspace, case: Case, choice: Choice, *, kinds: Iterable[str] = KINDS, seed: int = 0) -> int:
    """Collective. Wrong elements over all ranks and kinds of message; outputs are poisoned before each call.

    Each message is reduced several times in a row, so that a line left over from a call before is noticed.
    """
    import torch

    variant = _variant(workspace, case, choice)
    wrong = 0
    for kind in kinds:
        for turn in range(2):
            shape = (case.rows, case.hidden) if case.hidden else (1, case.rows)
            message = draw(kind, workspace.world, *shape, case.dtype, seed + turn)
            trial = Trial(Expected(message, variant), variant, workspace.rank)
            for _ in range(3):
                trial.poison()
                workspace.launch(variant, case.rows, trial.addresses, epsilon=EPSILON)
            torch.cuda.synchronize()
            workspace.check()
            wrong += sum(trial.wrong().values())
    return sum(workspace.group.gather(wrong))


def aligned_us(
    workspace: Workspace,
    enqueue: Callable[[], None],
    *,
    nodes: int = NODES,
    samples: int = SAMPLES,
    captured: Callable[[], None] = lambda: None,
) -> list[float]:
    """Collective. Microseconds a call in a graph, one figure a sample, the largest over ranks.

    ``captured`` runs after the capture: kernels that register what a graph reads do it there.

    Before each replay all ranks meet on the host, wait 0.3 ms on the device, so that launching is hidden, and
    meet again in one small allreduce.
    """
    import torch

    cell = torch.zeros(8, dtype=torch.bfloat16, device="cuda")
    small = Variant(workspace.world, Dtype.BFLOAT16, Line.LL8, threads=128, push=workspace.slots.transport == "push")
    addresses = {"input": cell.data_ptr(), "out": cell.data_ptr()}
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    times: list[float] = []
    with torch.cuda.stream(stream):
        workspace.launch(small, 8, addresses)
        enqueue()
        torch.cuda.synchronize()
        graph = capture(enqueue, nodes, stream)
        captured()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for sample in range(samples + 2):
            workspace.meeting.meet(0, 60.0, "a timing")
            launch("spin", limit_ns=300_000)
            workspace.launch(small, 8, addresses)
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            if sample >= 2:
                times.append(1e3 * begin.elapsed_time(end) / nodes)
    workspace.check()
    torch.cuda.current_stream().wait_stream(stream)
    everyone = workspace.group.gather(times)
    return [max(sample) for sample in zip(*everyone, strict=True)]


def time_choice(workspace: Workspace, case: Case, choice: Choice, **options: int) -> list[float]:
    """Collective. :func:`aligned_us` of one candidate."""
    import torch

    variant = _variant(workspace, case, choice)
    dtype = {0: torch.float32, 1: torch.float16, 2: torch.bfloat16}[int(case.dtype)]
    count = case.rows * max(case.hidden, 1)
    names = ("input", "residual", "out", "residual_out")
    tensors = {name: torch.randn(count, device="cuda").to(dtype) for name in names}
    tensors["weight"] = torch.randn(max(case.hidden, 1), device="cuda").to(dtype)
    addresses = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    workspace.kernel(variant)
    return aligned_us(workspace, lambda: workspace.launch(variant, case.rows, addresses, epsilon=EPSILON), **options)


def decide(case: Case, measured: Iterable[Measured], nccl_us: float | None) -> Choice:
    """The fastest checked candidate, or "nccl" where it is not clearly faster."""
    first = _fastest(measured, 1)
    if not first:
        return Choice(transport="nccl", us=nccl_us)
    best = first[0]
    if nccl_us is not None and best.us is not None and best.us > MARGIN * nccl_us:
        return Choice(transport="nccl", us=nccl_us)
    return replace(best.choice, us=best.us)


def _attempt(workspace: Workspace, case: Case, choice: Choice) -> Measured:
    """Check, then time one candidate."""
    if not workspace.capacity(_variant(workspace, case, choice), case.rows):
        return Measured(case, choice, None, "larger than the workspace")
    wrong = screen(workspace, case, choice, kinds=("normal", "mixed"))
    if wrong:
        return Measured(case, choice, None, f"{wrong} wrong elements")
    return Measured(case, choice, statistics.median(time_choice(workspace, case, choice)))


def _fastest(measured: Iterable[Measured], count: int) -> list[Measured]:
    timed = [one for one in measured if one.us is not None]
    return sorted(timed, key=lambda one: one.us or 0.0)[:count]


def tune(
    workspace: Workspace,
    cases: Iterable[Case],
    *,
    nccl_us: Callable[[Case], float | None] = lambda case: None,
    lines: Iterable[Line] = (Line.LL8, Line.F16),
    report: Callable[[str], None] = lambda text: None,
) -> tuple[Table, list[Measured]]:
    """Collective. A table for ``cases`` and everything that was measured; identical on all ranks.

    ``nccl_us`` gives NCCL's time for a case (its best setting), or None where it was not measured.
    """
    entries: dict[str, Choice] = {}
    everything: list[Measured] = []
    for case in cases:
        measured = [_attempt(workspace, case, choice) for choice in choices(workspace.world, case, tuple(lines))]
        measured += [
            _attempt(workspace, case, later) for one in _fastest(measured, BEST) for later in paused(one.choice)
        ]
        everything += measured
        chosen = decide(case, measured, nccl_us(case))
        entries[Table.key(workspace.world, case.dtype, case.pattern, case.size)] = chosen
        report(f"{case.pattern} {case.size} bytes: {chosen}")
    return Table(fingerprint(workspace), entries), everything


def fingerprint(workspace: Workspace) -> dict[str, str]:
    """What a table holds for: GPUs in rank order, driver, NCCL, this package. Collective."""
    import torch

    from .driver import driver

    properties = torch.cuda.get_device_properties(workspace.device)
    mine: Any = (str(properties.name), str(properties.uuid), workspace.arch)
    everyone = workspace.group.gather(mine)
    return {
        "gpus": ", ".join(f"{name} {uuid}" for name, uuid, _ in everyone),
        "driver": str(driver().version()),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "package": __version__,
        "transport": workspace.slots.transport,
    }
