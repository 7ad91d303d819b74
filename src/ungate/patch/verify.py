"""After the edits: does a second scan agree that exactly the asked gates opened, for exactly the named archs?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from ungate.model import ArchSet, Finding, Gate, Series
from ungate.patch.content import by_file

__all__ = ["twins", "verify"]

_Key = tuple[str, str, int]


def _ordinals(gates: Iterable[Gate], files: frozenset[str]) -> dict[_Key, Gate]:
    """Each gate under (file, symbol, ordinal): what an edit does not change."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    found: dict[_Key, Gate] = {}
    for gate in sorted(gates, key=lambda g: (g.file, g.span[0] or g.line, g.span[1], g.pattern)):
        if gate.file in files:
            key = (gate.file, gate.symbol)
            found[(*key, counts[key])] = gate
            counts[key] += 1
    return found


def _inserted(series: Series) -> dict[str, list[tuple[int, int]]]:
    """By file, the byte ranges of the edited content that insertions wrote: what was not there has no twin."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for file, edits in by_file(series.edits).items():
        shift = 0
        for edit in edits:
            if edit.start == edit.end:
                found[file].append((edit.start + shift, edit.start + shift + len(edit.new)))
            shift += len(edit.new) - (edit.end - edit.start)
    return found


def _own(gates: Sequence[Gate], series: Series) -> list[Gate]:
    """Without the gates that lie whole in a text that the series inserted: a capability that an edit compares."""
    inserted = _inserted(series)
    return [
        gate
        for gate in gates
        if gate.span == (0, 0)
        or not any(low <= gate.span[0] and gate.span[1] <= high for low, high in inserted.get(gate.file, ()))
    ]


def twins(series: Series, before: Sequence[Gate], after: Sequence[Gate]) -> dict[str, Gate]:
    """The gate of the second scan that stands for each gate (by id) of the first, in the edited files."""
    files = frozenset(series.before)
    old, new = _ordinals(before, files), _ordinals(_own(after, series), files)
    return {gate.id: new[key] for key, gate in old.items() if key in new}


def _wrong(what: str, gate: Gate, evidence: str) -> Finding:
    return Finding(
        rule="patch-verify",
        severity="danger",
        what=what,
        advice="Do not use this series; report it with the output of: ungate patch diff --json",
        evidence=evidence,
        file=gate.file,
        line=gate.line,
        end_line=gate.end_line,
    )


def _follows(gate: Gate, twin: Gate, admitted: frozenset[int]) -> bool:
    """Whether a gate whose text is as it was only follows a name that an edit gave another value, for these archs."""
    same = (gate.condition, gate.sense, gate.passes.unknown) == (twin.condition, twin.sense, twin.passes.unknown)
    return gate.role == "use" and same and gate.passes.yes ^ twin.passes.yes <= admitted


def verify(series: Series, before: Sequence[Gate], after: Sequence[Gate]) -> tuple[Finding, ...]:
    """Findings of severity danger for whatever the second scan does not confirm; empty when it confirms all.

    ``before`` and ``after`` are the gates of the packages as installed and of the overlay. Each edited gate must let
    through its old set and what the series admits, no more and no less; every other gate of the files stays as it was.
    One whose text did not change may follow a name that did, for the admitted archs.
    """
    files = frozenset(series.before)
    old, new = _ordinals(before, files), _ordinals(_own(after, series), files)
    admits = {edit.gate: edit.admits for edit in series.edits}
    # a gate that holds an edited one inside its span opens with it
    inside = {
        gate.id: admits[inner.id]
        for gate in old.values()
        for inner in old.values()
        if inner.id in admits
        and inner is not gate
        and inner.file == gate.file
        and gate.span[0] <= inner.span[0]
        and inner.span[1] <= gate.span[1]
    }
    was = {gate.id: gate.passes for gate in before}
    admitted = frozenset().union(*(edit.admits.yes - was.get(edit.gate, edit.admits).yes for edit in series.edits))
    findings: list[Finding] = []
    for key, gate in old.items():
        twin = new.get(key)
        expected = admits.get(gate.id)
        if twin is None:
            findings.append(
                _wrong(f"The gate at {gate.file}:{gate.line} is no longer found after the edit.", gate, gate.condition)
            )
        elif expected is not None and twin.passes != expected:
            findings.append(
                _wrong(
                    f"The edited gate at {gate.file}:{gate.line} lets {twin.passes} through, "
                    f"and should let {expected} through.",
                    gate,
                    f"{gate.condition} became {twin.condition}",
                )
            )
        elif (
            expected is None
            and twin.passes != gate.passes
            and twin.passes != inside.get(gate.id)
            and not _follows(gate, twin, admitted)
        ):
            findings.append(
                _wrong(
                    f"The gate at {gate.file}:{gate.line} was not edited, and lets {twin.passes} through "
                    f"instead of {gate.passes}.",
                    gate,
                    f"{gate.condition} became {twin.condition}",
                )
            )
    for key, gate in new.items():
        if key not in old:
            findings.append(
                _wrong(f"A gate at {gate.file}:{gate.line} was not there before the edit.", gate, gate.condition)
            )
    missing = set(admits) - {gate.id for gate in old.values()}
    for file in sorted({edit.file for edit in series.edits if edit.gate in missing}):
        gate = Gate("", "", "", "", file, 0, 0, "", "", ArchSet())
        findings.append(_wrong(f"An edited gate of {file} is not among the gates of the first scan.", gate, ""))
    return tuple(findings)
