"""All candidates on all sizes: opened one after another, checked, timed in turn round by round, closed."""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ungate.host.environment import Environment
from ungate.host.progress import Report
from ungate.probe.command import command, variables
from ungate.probe.records import Cell, Entrant, Measured, Request, Shape, State, Survey
from ungate.probe.shapes import shapes
from ungate.probe.world import Failure, World

__all__ = ["ITEM_SIZES", "measure"]

ITEM_SIZES = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Bytes of an element, by PyTorch's name of the dtype."""

_RANKS_WAIT = 3.0  # deadlines that the ranks themselves wait for each other: which of them hangs is to be told here
_DIFFER = "The ranks hold different bits after the same call."


class _Running:
    """One candidate while it runs: its ranks, what was found so far, and whether it still answers."""

    def __init__(self, entrant: Entrant, world: World, request: Request) -> None:
        self.entrant, self.world, self._timeout_s = entrant, world, request.timeout_s
        self.cells: dict[int, Cell] = {}
        self.failure: Failure | None = None
        self.notes: list[str] = []
        self._replay = 0

    @property
    def alive(self) -> bool:
        return self.failure is None

    def ask(self, request: Mapping[str, object], doing: str, least_s: float = 0.0) -> list[dict[str, Any]] | None:
        """The answers of the ranks, or None when the candidate has ended by it."""
        try:
            return self.world.ask(request, max(self._timeout_s, least_s), doing)
        except Failure as failure:
            self.fail(failure)
            return None

    def fail(self, failure: Failure) -> None:
        """Stop it at once: a kernel that spins would be in the way of the others."""
        self.failure = failure
        self.world.stop()

    def check(self, size: int, shape: Shape, timed: bool) -> None:
        """Run and compare one shape; a cell is made or made worse by what is found."""
        doing = f"checking {size} bytes as {shape.rows} x {shape.hidden}"
        asked = {"do": "shape", "rows": shape.rows, "hidden": shape.hidden, "replay": self._next(2), "timed": timed}
        answers = self.ask(asked, doing)
        cell = self.cells.get(size) or Cell(self.entrant.name, size, State.OK)
        if answers is None:
            self.cells[size] = self._ended(cell)
            return
        refused = [answer["refused"] for answer in answers if "refused" in answer]
        if refused:
            if timed:
                self.cells[size] = replace(cell, state=State.REFUSED, reason=refused[0])
            else:
                self.notes.append(f"Not checked as {shape.rows} x {shape.hidden}: {refused[0]}")
            return
        if timed:
            self.world.look()
            graph = all(answer["graph"] for answer in answers)
            cell = replace(cell, graph=graph, calls=answers[0]["calls"])
            self.notes += [each["note"] for each in answers if each["note"]]
        self.cells[size] = _judged(cell, answers, f"As {shape.rows} x {shape.hidden}: ")
        if not timed or self.cells[size].state is not State.OK:
            self.drop(size, shape)

    def time(self, size: int, shape: Shape, replays: int) -> None:
        """Time one round and compare its last replay."""
        asked = {"do": "time", "rows": shape.rows, "hidden": shape.hidden}
        answers = self.ask(asked | {"replay": self._next(replays), "replays": replays}, f"timing {size} bytes")
        cell = self.cells[size]
        if answers is None:
            self.cells[size] = self._ended(cell)
            return
        slowest = [max(each) for each in zip(*(answer["us"] for answer in answers), strict=True)]
        cell = _judged(replace(cell, us=(*cell.us, statistics.median(slowest))), answers, "While it was timed: ")
        self.cells[size] = cell
        if cell.state is not State.OK:
            self.drop(size, shape)

    def drop(self, size: int, shape: Shape) -> None:
        self.ask({"do": "drop", "rows": shape.rows, "hidden": shape.hidden}, f"freeing {size} bytes")

    def _next(self, count: int) -> int:
        self._replay += count
        return self._replay - count

    def _ended(self, cell: Cell) -> Cell:
        assert self.failure is not None
        return replace(cell, state=self.failure.state, reason=self.failure.reason)

    def result(self, sizes: Iterable[int]) -> Measured:
        """The record, with a cell for every size."""
        name = self.entrant.name
        ended = Cell(name, 0, State.ENDED, "It had ended before.")
        cells = tuple(self.cells.get(size) or replace(ended, size=size) for size in sizes)
        notes = tuple(dict.fromkeys([*self.notes, *self.world.notes]))
        if self.failure is not None:
            return Measured(self.entrant, self.failure.state, self.failure.reason, cells, self.failure.log, notes)
        wrong = [cell for cell in cells if cell.state is State.WRONG]
        if wrong:
            reason = f"Wrong at {wrong[0].size} bytes, so it is used at no size. {wrong[0].reason}"
            return Measured(self.entrant, State.WRONG, reason, cells, (), notes)
        if all(cell.state is State.REFUSED for cell in cells):
            return Measured(self.entrant, State.REFUSED, cells[0].reason, cells, (), notes)
        return Measured(self.entrant, State.OK, "", cells, (), notes)


def _judged(cell: Cell, answers: Sequence[Mapping[str, Any]], where: str) -> Cell:
    """The cell after some replays: every rank's own comparison, and the ranks with each other."""
    turns = list(zip(*(answer["checks"] for answer in answers), strict=True))
    cell = replace(cell, checks=cell.checks + len(turns))
    for turn in turns:
        for rank, check in enumerate(turn):
            if check["wrong"]:
                return replace(cell, state=State.WRONG, reason=f"{where}on rank {rank}, {check['wrong']}")
        if len({check["digest"] for check in turn}) > 1:
            return replace(cell, state=State.WRONG, reason=f"{where}{_DIFFER}")
        cell = replace(cell, error=max(cell.error or 0.0, *(check["share"] for check in turn)))
    return cell


def measure(
    env: Environment, survey: Survey, request: Request, order: Mapping[int, Sequence[str]], report: Report
) -> tuple[Measured, ...]:
    """Every candidate of the survey; those that are not available are listed with the reason and nothing is run.

    ``order`` gives the names of the available candidates in the order in which they are timed, for each round. The
    results stand in the order of the survey.
    """
    able = [entrant for entrant in survey.entrants if not entrant.unavailable]
    found = {
        each.name: Measured(each, State.UNAVAILABLE, each.unavailable) for each in survey.entrants if each.unavailable
    }
    total = len(able) * (1 + len(request.sizes) * (1 + request.rounds))
    done = 0

    def step(what: str) -> None:
        nonlocal done
        report(what, done, total)
        done += 1

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ungate-probe-")))
        running: dict[str, _Running] = {}
        for number, entrant in enumerate(able):
            place = folder / str(number)
            place.mkdir()
            world = stack.enter_context(World(survey.facts.world, place))
            running[entrant.name] = _Running(entrant, world, request)
            _start(running[entrant.name], env, survey, request, place)
        for each in running.values():
            step(f"opening {each.entrant.name}")
            if each.alive and each.ask({"do": "open"}, "opening", each.entrant.setup_s) is not None:
                each.world.look()
        for size in request.sizes:
            first, *others = shapes(size, ITEM_SIZES[request.dtype])
            for each in running.values():
                step(f"checking {each.entrant.name} at {size} bytes")
                for shape in (first, *others):
                    if each.alive and (shape == first or each.cells[size].state is State.OK):
                        each.check(size, shape, shape == first)
            for number in range(request.rounds):
                for name in order[number]:
                    step(f"timing {name} at {size} bytes, round {number + 1}")
                    each = running[name]
                    if each.alive and each.cells[size].state is State.OK:
                        each.time(size, first, request.replays)
            for each in running.values():
                if each.alive and each.cells[size].state is State.OK:
                    each.drop(size, first)
        for each in running.values():
            if each.alive and (said := each.world.end(request.timeout_s)):
                each.notes.append(said)
            each.world.stop()
        found |= {name: each.result(request.sizes) for name, each in running.items()}
    return tuple(found[entrant.name] for entrant in survey.entrants)


def _start(each: _Running, env: Environment, survey: Survey, request: Request, place: Path) -> None:
    entrant, facts = each.entrant, survey.facts

    def start(rank: int, address: Path) -> tuple[list[str], dict[str, str]]:
        spec = {
            "socket": str(address),
            "candidate": entrant.name,
            "rank": rank,
            "world": facts.world,
            "device": facts.device,
            "dtype": request.dtype,
            "cores": facts.cores,
            "max_bytes": max(request.sizes),
            "folder": str(place),
            "timeout_s": _RANKS_WAIT * max(request.timeout_s, entrant.setup_s),
            "extra": request.extra,
        }
        loopback = {"GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo")}  # a host's name may not resolve
        return command(env, "ungate.probe.serving.rank", spec), variables(env, loopback | dict(entrant.environment))

    try:
        each.world.start(start, request.timeout_s)
    except Failure as failure:
        each.fail(failure)
