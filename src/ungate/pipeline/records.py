"""What a run is asked for, and what its stages have found so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ungate.host.environment import Environment
from ungate.host.progress import Report
from ungate.model import (
    Arm,
    Artifact,
    Cell,
    Chain,
    Finding,
    Policy,
    Recipe,
    Sample,
    ScanResult,
    Series,
    Target,
    Variant,
    Verdict,
)

if TYPE_CHECKING:
    from ungate.host.facts import HostFacts
    from ungate.host.packages import Package
    from ungate.judge import Guard, Plan
    from ungate.judge.interval import Prior
    from ungate.measure.telemetry import Window
    from ungate.patch.overlay import Overlay
    from ungate.pipeline.journal import Journal

__all__ = ["Ablation", "Act", "Context", "EarlyEnd", "Elsewhere", "Records", "Request", "Stage", "StartRecord"]


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for.

    ``until`` is the name of the last stage. ``command`` is the server's command line, empty where the run
    stops before a server is needed, and ``variables`` are added to the environment of both arms. ``min_effect``
    is the smallest change worth having (0.05 = 5 %). ``budget_s`` limits the measuring in seconds of wall time.
    ``arms`` are compared with the baseline beside those of the recipe. ``same``: the candidate is the baseline once
    more, so that what is measured is noise. ``swap``: baseline and candidate change places.
    """

    recipe: Recipe
    environment: Environment
    target: Target
    folder: Path
    until: str = "report"
    command: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    facts: HostFacts | None = None
    pairs: int | None = None
    min_effect: float = 0.05
    budget_s: float = 3600.0
    load_s: float = 20.0
    start_deadline_s: float = 900.0
    arms: tuple[Variant, ...] = ()
    same: bool = False
    swap: bool = False


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What a recipe's way is like in the packages of a further arm, each with its name and version.

    ``closed`` are the gates that hold the target back there, each as ``file:line condition``, ``flag`` whether the
    recipe's flag is defined (None: the recipe has none, or no way to follow); ``said`` tells it in a sentence's part.
    """

    arm: str
    packages: tuple[tuple[str, str], ...]
    closed: tuple[str, ...]
    flag: bool | None
    said: str

    @property
    def usable(self) -> bool:
        """Whether the feature can be switched on there as it is."""
        return self.flag is not False and not self.closed


@dataclass(frozen=True, slots=True)
class EarlyEnd:
    """A cell's load that was ended before its time, after ``seconds`` of load with its warm-up.

    ``kind`` is collapsed (the figures so far are the measurement), hung, ended (the server or a worker did) or
    unfinished; ``reason`` is the sentence that tells why.
    """

    cell: Cell
    kind: str
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class StartRecord:
    """One server start of the measurement: which arm, how long until it was ready, and why it ended early if it did.

    ``seconds`` is the wall time of the whole start. ``rounds`` are those that it took until the times had settled,
    ``settled`` whether they had; ``compiled`` the compiled files that were added to JIT caches meanwhile. None is
    *not known*. ``early`` are the cells whose load was cut short.
    """

    arm: str
    start: int
    ready_s: float | None
    note: str = ""
    seconds: float = 0.0
    settled: bool | None = None
    rounds: int = 0
    compiled: int | None = None
    early: tuple[EarlyEnd, ...] = ()


@dataclass(frozen=True, slots=True)
class Ablation:
    """A lost candidate with one thing changed, to find out why it lost.

    ``value`` is the primary metric in ``cell``, None where it gave none. ``outcome`` is cause, not the cause, needed
    (without it nothing starts), switch (without it the path does not run), wrong (its answers are) or unknown;
    ``said`` tells it in a sentence.
    """

    name: str
    cell: Cell
    value: float | None
    outcome: str
    said: str


@dataclass(frozen=True, slots=True)
class Records:
    """The records of the stages that have run; None or empty where a stage has not.

    A stage reads what it needs and returns a copy with its own part filled in.
    """

    facts: HostFacts | None = None
    packages: tuple[Package, ...] = ()
    scan: ScanResult | None = None
    chain: Chain | None = None
    findings: tuple[Finding, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    series: Series | None = None
    diff: str = ""
    overlay: Overlay | None = None
    pristine: tuple[tuple[str, int], ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    arms: tuple[Arm, ...] = ()
    guards: tuple[Guard, ...] = ()
    plan: Plan | None = None
    starts: tuple[StartRecord, ...] = ()
    samples: tuple[Sample, ...] = ()
    telemetry: tuple[dict[str, object], ...] = ()
    windows: Mapping[tuple[str, int, Cell], Window] = field(default_factory=dict)
    diagnoses: Mapping[tuple[str, Cell], str] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    phases: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)  # of prefill and decode alone
    policy: Policy | None = None
    ablations: tuple[Ablation, ...] = ()
    cause: str = ""  # of a lost comparison, by experiment, in a sentence
    stopped: str = ""  # why the run ended before its last stage, in a sentence
    page: Path | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """How a stage says how far it is, and the journal in which it writes its steps ahead and keeps what they gave."""

    report: Report
    journal: Journal
    prior: Prior | None = None


Act = Callable[[Request, Records, Context], Records]


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the pipeline: its name, its line in the task list, and what it does."""

    name: str
    task: str
    act: Act
