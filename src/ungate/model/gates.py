"""What a scan finds and a trace connects: gates, hops, chains."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ungate.model.targets import ArchSet, Target

__all__ = ["Chain", "Form", "Gate", "Hop", "Reached", "ScanResult", "Sense", "Status", "Unread"]


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
