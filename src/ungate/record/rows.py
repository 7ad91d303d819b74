"""What the ledger's tables hold, as records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ungate.model import Cell, Task, Verdict

__all__ = ["Hypothesis", "Row", "Step", "cell", "clean", "packed"]


@dataclass(frozen=True, slots=True)
class Row:
    """One run as the ledger holds it. Times are ISO 8601 in UTC; ``ended`` is None while it has not ended.

    ``machine`` is the same for runs on machines of the same kind (see :func:`ungate.record.noise.machine`),
    ``origin`` an identity that the run keeps when it is imported elsewhere, ``steps`` the names of the tasks, in order.
    """

    id: int
    started: str
    ended: str | None
    recipe: str
    target: str
    status: str
    fingerprint: Mapping[str, object]
    reopen: str
    folder: str
    verdicts: tuple[Verdict, ...]
    tasks: tuple[Task, ...]
    steps: tuple[str, ...] = ()
    machine: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """A task of a run with its name, by which a resumed run finds it again, and its place in the list."""

    name: str
    position: int
    task: Task


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """Something worth trying, and what decides it; ``run`` is the run that tries or tried it.

    ``recipe`` is empty where the criterion is given in words alone; then a person has to carry it out.
    """

    id: int
    task: Task
    recipe: str = ""
    cells: tuple[Cell, ...] = ()
    min_effect: float | None = None
    run: int | None = None


def cell(text: str) -> Cell:
    """A cell from its name (``c16-i1024-o256``); ValueError for anything else."""
    found = re.fullmatch(r"c([1-9]\d{0,8})-i([1-9]\d{0,8})-o([1-9]\d{0,8})", text)
    if found is None:
        raise ValueError(f"'{text}' has not the form c16-i1024-o256")
    return Cell(*map(int, found.groups()))


def clean(text: str) -> str:
    """Text that both databases take: a log line can hold half a character, and PostgreSQL refuses NUL."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")


def packed(value: Mapping[str, object]) -> str:
    """A mapping as JSON with every text in it cleaned."""

    def inside(item: object) -> object:
        match item:
            case str():
                return clean(item)
            case Mapping():
                return {clean(str(key)): inside(each) for key, each in item.items()}
            case list() | tuple():
                return [inside(each) for each in item]
            case _:
                return item

    return json.dumps(inside(value), sort_keys=True)
