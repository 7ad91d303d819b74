"""What is compared, measured and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

__all__ = ["DECIDING", "Arm", "Cell", "Decision", "Recipe", "Sample", "Task", "Variant", "Verdict"]

DECIDING = ("output_tokens_per_second", "requests_per_second")
"""The metrics that a verdict may be made from: more of them is better. Latencies are measured and judged beside it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """How one arm differs from the user's command: variables, arguments, other releases of packages.

    ``release`` are requirements such as ``flashinfer-python==0.6.17``: those releases are unpacked into a folder of
    their own that comes first on the path. ``command`` replaces the user's server command: another interpreter with an
    environment of its own, another backend, another engine. ``place`` is where the arm's packages are instead: an
    interpreter, which then runs the user's command, or a folder. ``feature``: what the recipe switches its candidate
    on with is added, where these packages let the target through. ``keywords`` are given other literal values wherever
    ``file`` (of the overlay's copy) passes them in a call.
    """

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    place: Path | None = None
    feature: bool = False
    file: str = ""
    keywords: Mapping[str, bool | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to open, how it is switched on, and what proves that it ran.

    ``packages`` are distributions, the library first and the engine last. ``entries`` are the symbols
    ``package.module:name`` that the feature's kernel is called through; ``flag`` is the server argument
    and ``attribute`` the name its value is stored under. ``arguments`` and ``environment`` switch the
    candidate arm on. ``proof`` maps a way of proving activation (log, kernel, counter) to what to
    look for. ``build`` names what compiles the edited code inside the overlay: ``package.module`` is run as a
    module, ``package.module:name`` is a function that returns a JIT specification, whose ``build()`` is called, or that
    builds by itself. ``build_arguments`` are values for its parameters.

    Without ``entries`` there is no gate to open: the arms differ by environment, arguments or releases alone.
    ``baseline`` is what the baseline has beside the user's command, ``arms`` are further arms that are compared with
    it, ``ablations`` what to change in a candidate that lost, one at a time, to find out why. ``file`` is the absolute
    path that it was read from, empty for one of ungate's own: a command calls it by that, since its name finds nothing.
    """

    name: str
    summary: str
    packages: tuple[str, ...]
    entries: tuple[str, ...]
    flag: str = ""
    attribute: str = ""
    engine: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    proof: Mapping[str, str] = field(default_factory=dict)
    build: str = ""
    build_arguments: Mapping[str, str | int | bool] = field(default_factory=dict)
    kernel_prefix: str = ""  # what the names of host-function kernels begin with; empty for CUDA kernels
    needs_peer_access: bool = False
    instead: str = ""  # what helps where this feature cannot
    cells: tuple[Cell, ...] = ()
    metric: str = DECIDING[0]
    baseline: Variant = field(default_factory=lambda: Variant("baseline"))
    arms: tuple[Variant, ...] = ()
    ablations: tuple[Variant, ...] = ()
    file: str = ""


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison: the environment variables and arguments that differ from the user's command.

    ``command`` is empty where the arm is started with the user's own.
    """

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    series: str = ""
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """One load point: requests in flight, prompt tokens, output tokens a request."""

    concurrency: int
    prompt_tokens: int
    output_tokens: int

    def __str__(self) -> str:
        return f"c{self.concurrency}-i{self.prompt_tokens}-o{self.output_tokens}"


@dataclass(frozen=True, slots=True)
class Sample:
    """One metric of one cell of one server start. ``value`` None is a missing reading, never zero."""

    arm: str
    start: int
    cell: Cell
    metric: str
    value: float | None
    unit: str
    note: str = ""


class Decision(StrEnum):
    """What a comparison comes to."""

    KEEP = "keep"
    REVERT = "revert"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision for one cell of one arm that was compared with the baseline.

    ``ratio`` is candidate over baseline of the primary metric (above 1 is faster), ``low`` and
    ``high`` its interval at ``level``; all None where there was not enough to compute them.
    """

    cell: Cell
    decision: Decision
    reason: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    pairs: int = 0
    diagnosis: str = ""
    arm: str = "candidate"


@dataclass(frozen=True, slots=True)
class Task:
    """A step or a hypothesis of a campaign.

    ``status`` is one of pending, in_progress, completed, failed, cancelled; ``priority`` one of high, medium, low.
    """

    content: str
    status: str = "pending"
    priority: str = "medium"
    criterion: str = ""
