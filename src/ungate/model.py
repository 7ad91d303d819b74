"""The frozen records that cross stages.

A stage is a function from these records to these records. Nothing in this module reads a file,
starts a process or knows another module of ungate except :mod:`ungate.errors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ungate.errors import Refusal

__all__ = [
    "KNOWN_ARCHS",
    "ArchSet",
    "Arm",
    "Artifact",
    "Cell",
    "Chain",
    "Decision",
    "Edit",
    "Finding",
    "Form",
    "Gate",
    "Hop",
    "KnownMatch",
    "KnownResult",
    "Place",
    "Policy",
    "PolicyRow",
    "Reached",
    "Recipe",
    "Sample",
    "ScanResult",
    "Sense",
    "Series",
    "Status",
    "Target",
    "Task",
    "Unread",
    "Variant",
    "Verdict",
]

KNOWN_ARCHS: tuple[int, ...] = (75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121)
"""Compute capabilities as integers (90 = sm_90): what ``nvcc --list-gpu-arch`` of CUDA 13 lists, and 107."""


@dataclass(frozen=True, order=True, slots=True)
class Target:
    """A compilation target: compute capability and architecture suffix.

    ``number`` is 10 * major + minor (120 = sm_120). ``suffix`` is ``""`` (portable), ``"a"``
    (architecture specific) or ``"f"`` (family specific), as in nvcc's ``-arch=sm_120a``. Number 0 is no GPU at all,
    where a comparison is of switches on a CPU; it cannot be asked for.
    """

    number: int
    suffix: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read ``sm_120``, ``sm_120a``, ``compute_120f``, ``12.0``, ``12.0a`` or ``120``; Refusal on anything else."""
        match = re.fullmatch(r"(?:sm_?|compute_)?(\d{1,3})(?:\.(\d))?([af]?)", text.strip().lower())
        if match:
            whole, minor, suffix = match.groups()
            number = int(whole) * 10 + int(minor) if minor is not None else int(whole)
            if number in KNOWN_ARCHS:
                return cls(number, suffix)
        known = ", ".join(f"sm_{arch}" for arch in KNOWN_ARCHS)
        raise Refusal(
            f"'{text}' is not a compute capability that ungate knows ({known}).",
            "Pass one of these forms: --target sm_120, --target sm_120a, --target 12.0 or --target 120.",
        )

    @property
    def major(self) -> int:
        return self.number // 10

    @property
    def minor(self) -> int:
        return self.number % 10

    @property
    def macro(self) -> int:
        """The value of ``__CUDA_ARCH__`` in the device pass (1200 for sm_120)."""
        return self.number * 10

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}" if self.number else "cpu"


@dataclass(frozen=True, slots=True)
class ArchSet:
    """The compute capabilities that a condition lets through, each known, or not known, to pass.

    A gate of any language is reduced to this. ``yes`` pass for certain, ``unknown`` cannot be
    decided statically; all other members of :data:`KNOWN_ARCHS` are held back for certain.
    """

    yes: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()

    @classmethod
    def of(cls, archs: Iterable[int]) -> ArchSet:
        return cls(frozenset(archs))

    @classmethod
    def undecided(cls) -> ArchSet:
        return cls(frozenset(), frozenset(KNOWN_ARCHS))

    @property
    def decided(self) -> bool:
        return not self.unknown

    def lets(self, arch: int) -> bool | None:
        """True: passes; False: held back; None: not decided."""
        if arch in self.unknown:
            return None
        return arch in self.yes

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.yes))

    def __str__(self) -> str:
        if not self.decided:
            return "unknown"
        return " ".join(f"sm_{arch}" for arch in self) or "none"


class Status(StrEnum):
    """What a gate does to the target."""

    OPEN = "open"
    CLOSED = "closed"
    UNKNOWN = "unknown"


class Reached(StrEnum):
    """Whether the named feature's call path meets a gate."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Sense(StrEnum):
    """What it means when the expression in a gate's span is true."""

    ALLOW = "allow"
    REFUSE = "refuse"


class Form(StrEnum):
    """How the deciding text of a gate is written; the patch stage has one edit a form."""

    INT_LIST = "int-list"  # list, tuple or set display of majors ([9, 10]) or capabilities ([90, 100])
    TUPLE_LIST = "tuple-list"  # display of (major, minor) tuples
    STRING_LIST = "string-list"  # display of names such as "sm_90a", "9.0" or gencode flags
    ARCH_NAME = "arch-name"  # one Python string, or a choice between strings, that names the target of a compilation
    PYTHON_EXPRESSION = "python-expression"  # a boolean Python expression
    PREPROCESSOR = "preprocessor"  # the text after #if or #elif
    MACRO_TEST = "macro-test"  # the name after #ifdef or #ifndef
    HOST_EXPRESSION = "host-expression"  # a boolean C++ expression in host code
    TABLE = "table"  # a mapping keyed by capability or architecture name
    FIXED = "fixed"  # no textual edit can open it; Gate.note says why


@dataclass(frozen=True, slots=True)
class Gate:
    """One architecture gate in one file.

    ``file`` is relative to the scanned root (the package folder's parent). ``line`` and
    ``end_line`` are 1-based and inclusive. ``span`` is the byte range [start, end) of the deciding
    text in the file, the text an edit changes: (0, 0) where there is none. ``passes`` is the
    set of archs that get the guarded thing, with all other conjuncts (model, dtype, flags) taken to hold.
    """

    id: str
    pattern: str
    package: str
    version: str
    file: str
    line: int
    end_line: int
    kind: str
    condition: str
    passes: ArchSet
    role: str = "test"
    form: Form = Form.FIXED
    span: tuple[int, int] = (0, 0)
    sense: Sense = Sense.ALLOW
    symbol: str = ""  # qualified name of the enclosing Python function or C++ function or kernel
    names: tuple[str, ...] = ()  # predicates, flags and macros that the deciding text reads
    vendored: bool = False
    reached: Reached | None = None  # None outside a named feature
    note: str = ""

    def status(self, target: Target) -> Status:
        match self.passes.lets(target.number):
            case True:
                return Status.OPEN
            case False:
                return Status.CLOSED
            case _:
                return Status.UNKNOWN


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that could not be read, with the reason; never skipped silently."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class ScanResult:
    """Every gate below the scanned roots. ``seconds`` is wall time; ``cached`` counts files answered from the cache."""

    gates: tuple[Gate, ...]
    unread: tuple[Unread, ...] = ()
    files: int = 0
    read: int = 0
    cached: int = 0
    seconds: float = 0.0
    vendored: int | None = 0  # gates left out because they lie in third-party trees; None where none was searched
    names: frozenset[str] = frozenset()  # under which Python modules hold answers, beside those that are spelled so


@dataclass(frozen=True, slots=True)
class Hop:
    """One step from the server's flag to the kernel.

    ``kind`` is one of flag, default, call, import, jit-module, source, include, kernel, raise. ``verified`` is
    True where the step was found in the code, None where it could not be resolved. ``tests`` are the other
    conditions on the way (sizes, world sizes, topology, device names), each as ``file:line condition``.
    ``blocker`` says why no edit can open this step (a prebuilt binary), empty where an edit can.
    """

    kind: str
    file: str
    line: int
    symbol: str
    verified: bool | None
    gates: tuple[Gate, ...] = ()
    note: str = ""
    tests: tuple[str, ...] = ()
    blocker: str = ""


@dataclass(frozen=True, slots=True)
class Chain:
    """The hops of one feature in dependency order, and what is built beside it but not called."""

    feature: str
    target: Target
    hops: tuple[Hop, ...]
    apart: tuple[Hop, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def gates(self) -> tuple[Gate, ...]:
        return tuple(gate for hop in (*self.hops, *self.apart) for gate in hop.gates)


@dataclass(frozen=True, slots=True)
class KnownResult:
    """What a public report found when a feature was opened, or when it was found closed. Figures are the reporter's.

    ``reference`` is ``owner/repository#number``, or ``owner/repository:path`` for a document; ``date`` is ISO 8601,
    empty where it is not known. ``outcome`` is one of refused, crash, hang, wrong, slower, mixed, faster. ``packages``
    maps distributions to the version range that it holds for (empty: none is stated). ``archs``, ``topologies`` and
    ``ranks`` (tensor-parallel sizes) are those it was seen on, empty for any. ``reopens`` says what makes it worth
    trying again. ``partial``: only a part of the report was read.
    """

    reference: str
    date: str
    outcome: str
    features: tuple[str, ...]
    packages: Mapping[str, str]
    archs: tuple[int, ...]
    topologies: tuple[str, ...]
    ranks: tuple[int, ...]
    hardware: str
    what: str
    reopens: str
    partial: bool = False

    @property
    def url(self) -> str:
        repository, _, number = self.reference.partition("#")
        if number:
            return f"https://github.com/{repository}/issues/{number}"
        repository, _, path = repository.partition(":")
        return f"https://github.com/{repository}/blob/HEAD/{path}"


@dataclass(frozen=True, slots=True)
class KnownMatch:
    """A public result that may hold here. ``open`` names what could not be compared: a version, the topology."""

    result: KnownResult
    open: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, how sure, and what to do next.

    ``severity`` is one of terminal (no edit can help), danger, warning, note.
    ``confidence`` is one of high, medium, low. ``file`` may be empty for a host fact.
    """

    rule: str
    severity: str
    what: str
    advice: str
    evidence: str = ""
    confidence: str = "high"
    file: str = ""
    line: int = 0
    end_line: int = 0
    reached: Reached = Reached.UNKNOWN


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of one byte span in one file.

    ``start`` and ``end`` are byte offsets in the file as it was scanned, ``old`` and ``new`` the bytes
    there before and after. ``admits`` are the archs that pass afterwards; ``riders`` those that pass
    beside the target only because the gate's form cannot express less.
    """

    file: str
    start: int
    end: int
    old: bytes
    new: bytes
    gate: str = ""
    admits: ArchSet = field(default_factory=ArchSet)
    riders: tuple[int, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """An ordered, reversible list of edits.

    ``before`` and ``after`` map each edited file to the sha256 (hex) of its whole content.
    ``refused`` names gates that were asked for and not edited, with the reason in words.
    """

    name: str
    target: Target
    edits: tuple[Edit, ...]
    before: Mapping[str, str]
    after: Mapping[str, str]
    refused: tuple[tuple[Gate, str], ...] = ()
    digest: str = ""  # sha256 over the edits: the series' identity, and the name of its caches


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled object and what it holds for the target. Counts are of kernels (``__global__`` functions)."""

    path: Path
    target: str
    kernels: int | None
    hollow: int | None
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Variant:
    """How one arm differs from the user's command: variables, arguments, other releases of packages.

    ``release`` are requirements such as ``flashinfer-python==0.6.17``: those releases are unpacked into a folder of
    their own that comes first on the path. ``command`` replaces the user's server command: another interpreter with an
    environment of its own, another backend, another engine. ``keywords`` are given other literal values wherever
    ``file`` (of the overlay's copy) passes them in a call.
    """

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    release: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
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
    module, ``package.module:name`` is a function that returns a JIT specification, whose ``build()`` is called.

    Without ``entries`` there is no gate to open: the arms differ by environment, arguments or releases alone.
    ``baseline`` is what the baseline has beside the user's command, ``arms`` are further arms that are compared with
    it, ``ablations`` what to change in a candidate that lost, one at a time, to find out why.
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
    kernel_prefix: str = ""  # what the names of host-function kernels begin with; empty for CUDA kernels
    needs_peer_access: bool = False
    instead: str = ""  # what helps where this feature cannot
    cells: tuple[Cell, ...] = ()
    metric: str = "output_tokens_per_second"
    baseline: Variant = field(default_factory=lambda: Variant("baseline"))
    arms: tuple[Variant, ...] = ()
    ablations: tuple[Variant, ...] = ()


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
class Place:
    """Where a policy was measured: ranks of tensor parallelism, peer access between the GPUs, their names.

    None and empty are *not known*; a policy with an unknown part holds for that part of nothing else.
    """

    tensor_parallel: int | None = None
    peer_access: bool | None = None
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One measured cell of a policy.

    ``decision`` is that of the primary metric, and the feature is used where it is keep. ``ratio`` is candidate over
    baseline (above 1 is faster) with its interval. ``prefill`` and ``decode`` are the decisions of the two phases
    alone (time to the first token, time per output token), None where they were not judged.
    """

    cell: Cell
    decision: Decision
    reason: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    prefill: Decision | None = None
    decode: Decision | None = None

    @property
    def used(self) -> bool:
        return self.decision is Decision.KEEP


@dataclass(frozen=True, slots=True)
class Policy:
    """Where to use an opened path, and everything it was measured with: it holds for nothing else.

    ``packages`` maps distributions to versions, ``series`` is the digest of the edits, ``arguments`` and
    ``environment`` switch the feature on in the server.
    """

    feature: str
    target: str
    rows: tuple[PolicyRow, ...]
    place: Place = field(default_factory=Place)
    packages: Mapping[str, str] = field(default_factory=dict)
    series: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    measured: str = ""  # ISO 8601, UTC

    @property
    def everywhere(self) -> bool:
        """Every measured cell uses it: then the gates may be opened without a restriction."""
        return bool(self.rows) and all(row.used for row in self.rows)

    @property
    def nowhere(self) -> bool:
        return not any(row.used for row in self.rows)

    def spans(self) -> tuple[tuple[int, int], ...]:
        """The ranges of requests in flight, both ends measured and inclusive, in which every cell uses it.

        A decode step has one row (token) a request in flight, so these are the row counts of a decode step as well.
        A cell that is not used ends the range at the last one before it that is: between two measured
        points nothing is known, and what is not known is not used.
        """
        by_count: dict[int, bool] = {}
        for row in self.rows:
            by_count[row.cell.concurrency] = by_count.get(row.cell.concurrency, True) and row.used
        found: list[tuple[int, int]] = []
        open_since: int | None = None
        last = 0
        for count in sorted(by_count):
            if by_count[count]:
                open_since = count if open_since is None else open_since
                last = count
            elif open_since is not None:
                found.append((open_since, last))
                open_since = None
        if open_since is not None:
            found.append((open_since, last))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Task:
    """A step or a hypothesis of a campaign.

    ``status`` is one of pending, in_progress, completed, failed, cancelled; ``priority`` one of high, medium, low.
    """

    content: str
    status: str = "pending"
    priority: str = "medium"
    criterion: str = ""
