"""Writing a policy back: the gates open only where the feature was measured to help.

A policy says for which requests in flight, and on how many ranks, a feature is used. A gate has room for that where
its code knows such a number: an expression inside a function that is told how many rows it works on, an expression
that knows the tensor-parallel size, a table of sizes with a row an architecture. :func:`restrict` finds these places;
what the policy says and no gate has a place for is named, and where the rows have none at all, nothing is written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ungate.errors import Refusal
from ungate.host.packages import Package
from ungate.model import Decision, Form, Gate, Policy, PolicyRow
from ungate.patch.content import root_of
from ungate.patch.edits import Entry
from ungate.patch.scope import Scope

__all__ = ["Restriction", "restrict", "row_ranges"]

_Range = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Restriction:
    """What to give to :func:`ungate.patch.open_series`, by gate id; ``unsaid`` is what has no place, a clause each."""

    when: Mapping[str, str] = field(default_factory=dict)
    entries: Mapping[str, Entry] = field(default_factory=dict)
    unsaid: tuple[str, ...] = ()


def row_ranges(policy: Policy) -> tuple[_Range, ...] | None:
    """The numbers of rows (tokens in one forward pass) for which the feature is used; None where it is for all.

    A decode step has a row a request in flight, a prefill a row a prompt token. Ranges are inclusive and end at
    measured points; an open end (None) is a prefill that helped wherever it was judged. Refusal where what was
    kept and what was not differ in something that no number of rows tells apart.
    """
    rows = policy.rows
    apart = any(row.decode or row.prefill for row in rows)
    if not apart:
        if policy.everywhere:
            return None
        if spans := policy.spans():
            return spans
        raise _no_room(policy, "the cells that use it and those that do not have the same requests in flight")
    decode = {row.cell.concurrency: True for row in rows}
    for row in rows:
        decode[row.cell.concurrency] &= _uses(row.decode, row)
    prefill = [_uses(row.prefill, row) for row in rows]
    if all(decode.values()) and all(prefill):
        return None
    ranges: list[_Range] = list(_runs(decode))
    if all(prefill):
        shortest, most = min(row.cell.prompt_tokens for row in rows), max(decode)
        if shortest <= most:
            raise _no_room(policy, f"a prefill of {shortest} rows cannot be told from a decode step of {most}")
        ranges.append((shortest, None))
    if not ranges:
        raise _no_room(policy, "no phase uses it at every measured prompt and output length")
    return tuple(ranges)


def _uses(phase: Decision | None, row: PolicyRow) -> bool:
    return (phase or row.decision) is Decision.KEEP


def _runs(used: Mapping[int, bool]) -> Iterator[_Range]:
    """The ranges of neighbouring counts that all use it."""
    run: list[int] = []
    for count in sorted(used):
        if used[count]:
            run.append(count)
        elif run:
            yield run[0], run[-1]
            run = []
    if run:
        yield run[0], run[-1]


def _no_room(policy: Policy, why: str) -> Refusal:
    return Refusal(
        f"The policy of {policy.feature} cannot be written into the packages: {why}.",
        f"Leave it closed, or open it everywhere: ungate patch push RECIPE --target {policy.target}",
    )


def restrict(
    policy: Policy,
    gates: Sequence[Gate],
    packages: Sequence[Package],
    *,
    row_bytes: int | None = None,
    bypassed: frozenset[str] = frozenset(),
) -> Restriction:
    """The places among the gates that have room for the policy.

    ``row_bytes`` is the size of one row of the message (hidden size x bytes an element): with it, tables of maximum
    message sizes get the largest measured number of rows as their limit. ``bypassed`` are gates (ids) that the policy's
    own arguments step over: what is written there does not count as said. Refusal where the feature is used nowhere,
    and where it is not used for all rows and no gate knows how many there are.
    """
    if policy.nowhere:
        raise Refusal(
            f"The policy uses {policy.feature} nowhere, so there is nothing to write.",
            "Take back what is pushed: ungate patch pop",
        )
    ranges, ranks = row_ranges(policy), policy.place.tensor_parallel
    when: dict[str, str] = {}
    entries: dict[str, Entry] = {}
    rows_said = ranks_said = False
    for gate in gates:
        package = root_of(packages, gate.package, gate.file)
        if package is None or gate.form not in (Form.PYTHON_EXPRESSION, Form.TABLE):
            continue
        content = (package.root / gate.file).read_bytes()
        if gate.form is Form.TABLE:
            if not _by_ranks(content[gate.span[0] : gate.span[1]]):
                continue
            limit = _limit(ranges, policy, row_bytes)
            entries[gate.id] = Entry(frozenset({ranks} if ranks else ()), limit)
            ranks_said |= ranks is not None
            rows_said |= limit is not None
            continue
        known = Scope.around(content, gate)
        rows, size = known.rows(), known.ranks()
        parts = []
        if ranges is not None and rows:
            parts.append(" or ".join(_compared(rows, low, high) for low, high in ranges))
            rows_said |= gate.id not in bypassed
        if ranks and size:
            parts.append(f"{size} == {ranks}")
            ranks_said |= gate.id not in bypassed
        if parts:
            when[gate.id] = " and ".join(f"({part})" if " or " in part and len(parts) > 1 else part for part in parts)
    if ranges is not None and not rows_said:
        raise _no_room(policy, f"it is used for {_words(ranges)} rows only, and no gate knows how many there are")
    return Restriction(when, entries, tuple(_unsaid(policy, ranks_said=ranks_said)))


def _unsaid(policy: Policy, *, ranks_said: bool) -> Iterator[str]:
    place = policy.place
    if place.tensor_parallel and not ranks_said:
        ranks = place.tensor_parallel
        yield f"it was measured with {ranks} ranks, and no gate that always asks knows the tensor-parallel size"
    if place.peer_access is not None:
        state = "with" if place.peer_access else "without"
        yield f"it was measured {state} peer access between the GPUs, which no gate asks about"
    if place.gpus:
        yield f"it was measured on {', '.join(dict.fromkeys(place.gpus))}, and a gate knows only the compute capability"


def _words(ranges: Iterable[_Range]) -> str:
    return " and ".join(f"{low} to {high}" if high is not None else f"{low} and more" for low, high in ranges)


def _compared(name: str, low: int, high: int | None) -> str:
    if high is None:
        return f"{name} >= {low}"
    return f"{name} == {low}" if low == high else f"{low} <= {name} <= {high}"


def _limit(ranges: tuple[_Range, ...] | None, policy: Policy, row_bytes: int | None) -> int | None:
    """The largest message in bytes; None where a maximum cannot say what the policy does."""
    if ranges is None or row_bytes is None or len(ranges) != 1:
        return None
    low, high = ranges[0]
    smallest = min(row.cell.concurrency for row in policy.rows)
    return high * row_bytes if high is not None and low == smallest else None


def _by_ranks(table: bytes) -> bool:
    """Whether the table's entries are themselves keyed by small numbers, as numbers of ranks are."""
    try:
        node = ast.parse(b"(" + table + b"\n)", mode="eval").body
    except (SyntaxError, ValueError):
        return False
    if not isinstance(node, ast.Dict) or not node.values:
        return False
    inner = [key for value in node.values if isinstance(value, ast.Dict) for key in value.keys]
    return bool(inner) and all(isinstance(key, ast.Constant) and key.value in range(2, 129) for key in inner)
