"""The scanned gates, looked up by file and line, and marked as reached or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ungate.model import Gate, Reached

__all__ = ["Gates", "marked"]


class Gates:
    """Gates by file. A gate belongs to a range of lines when it starts inside it.

    ``asked`` are the files that were looked up, with or without gates.
    """

    def __init__(self, gates: Iterable[Gate]) -> None:
        self.asked: set[str] = set()
        self._files: dict[str, list[Gate]] = {}
        for gate in gates:
            self._files.setdefault(gate.file, []).append(gate)
        for found in self._files.values():
            found.sort(key=lambda gate: (gate.line, gate.end_line))

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(self._files)

    def of(self, file: str) -> tuple[Gate, ...]:
        return tuple(self._in(file))

    def between(self, file: str, first: int, last: int) -> tuple[Gate, ...]:
        return tuple(gate for gate in self._in(file) if first <= gate.line <= last)

    def within(self, file: str, ranges: Sequence[tuple[int, int]]) -> tuple[Gate, ...]:
        """Gates that overlap any of the line ranges."""
        return tuple(
            gate
            for gate in self._in(file)
            if any(gate.line <= last and first <= gate.end_line for first, last in ranges)
        )

    def _in(self, file: str) -> list[Gate]:
        self.asked.add(file)
        return self._files.get(file, [])


def marked(gates: Iterable[Gate], reached: Reached, role: str = "") -> tuple[Gate, ...]:
    """The gates with ``reached`` set, and their role where one is given."""
    return tuple(replace(gate, reached=reached, role=role or gate.role) for gate in gates)
