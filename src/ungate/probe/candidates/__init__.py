"""Allreduce candidates: one file each, registered by being here and offering ``CANDIDATE``.

These files run inside the serving Python, which may be an older one (3.10) and need not have ungate: they import the
standard library, PyTorch and the package they try, where it is used. A file with a leading underscore is shared.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Candidate", "Facts", "Operation", "Ranks", "Unavailable", "candidates"]


class Unavailable(Exception):
    """A candidate cannot run here: a whole sentence says why. Raised by ``open``, on every rank alike."""


@dataclass(frozen=True)
class Facts:
    """What the serving Python says of itself and of the machine; None is not known.

    ``device`` is ``cuda`` or ``cpu``: where the tensors lie that are reduced. PyTorch sees ``visible`` GPUs, of which
    ``gpus`` are used; ``peer`` says whether each of them may access the memory of all others. ``modules`` maps the
    packages looked for to their versions ("" where it has none), ``settings`` holds the variables of the environment
    that steer NCCL and gloo.
    """

    device: str
    world: int
    python: str = ""
    architecture: str = ""
    cores: int = 1
    torch: str | None = None
    cuda: str | None = None
    nccl: str | None = None
    gloo: bool = False
    visible: int = 0
    gpus: tuple[str, ...] = ()
    capabilities: tuple[int, ...] = ()
    peer: bool | None = None
    modules: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ranks:
    """What a rank knows when it opens a candidate.

    ``group`` is a gloo group of all ranks, for control. ``max_bytes`` is the largest message of a rank, ``folder`` a
    private folder that all ranks share and that is removed afterwards. ``timeout_s`` is how long ranks may wait for
    each other: longer than ungate waits for them.
    """

    rank: int
    world: int
    device: Any
    dtype: Any
    max_bytes: int
    folder: str
    group: Any
    timeout_s: float


class Operation:
    """One opened candidate on one rank. Called as ``operation(source, out)`` on contiguous ``[rows, hidden]`` tensors.

    Enqueues the sum over all ranks on torch's current stream, or has done it when it returns. With ``in_place`` the
    sum is left in ``source`` and there is no ``out``.
    """

    in_place = False

    def __call__(self, source: Any, out: Any) -> None:
        raise NotImplementedError

    def refuses(self, rows: int, hidden: int) -> str:
        """Why it does not take this shape, as a whole sentence; empty where it does."""
        return ""

    def capturing(self) -> AbstractContextManager[None]:
        """Entered around the capture of a CUDA graph on all ranks."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Give back what ``open`` took. Collective."""


@dataclass(frozen=True)
class Candidate:
    """One way to reduce.

    ``what`` says what runs, ``how`` what has to be done for an engine to use it. ``environment`` is added to that of
    its ranks. ``unavailable`` gives a whole sentence, or nothing where the candidate may be opened. ``setup_s`` is the
    least time that opening it may take: some compile when they are first used. The ``baseline`` is what engines use
    when nothing is chosen.
    """

    name: str
    what: str
    how: str
    device: str
    open: Callable[[Ranks], Operation]
    unavailable: Callable[[Facts], str]
    environment: Mapping[str, str] = field(default_factory=dict)
    baseline: bool = False
    setup_s: float = 0.0


def candidates(extra: str = "") -> tuple[Candidate, ...]:
    """Every candidate by name, those of the folder ``extra`` too."""
    if extra and extra not in __path__:
        __path__.append(extra)
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    found: list[Candidate] = [importlib.import_module(f"{__name__}.{name}").CANDIDATE for name in names]
    return tuple(sorted(found, key=lambda candidate: candidate.name))
