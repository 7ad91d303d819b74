"""What the checks say, and what others have measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ungate.model.gates import Reached

__all__ = ["Finding", "KnownMatch", "KnownResult"]


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
