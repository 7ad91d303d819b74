"""The epoch protocol as a finite model, and a search through every interleaving of it.

The memory of the model is as weak as PCIe with relaxed ordering: a store becomes visible at any later time, stores
to different lines in any order, stores to one line in theirs, at most two of them at a time. The end of a kernel
orders nothing for a peer; only a fence does. A rank is a loop of calls; what it can do next is to see a line, to finish
the call and start the next one.

A state is wrong when a rank could accept a line that belongs to another call than its own, and stuck when nobody
can move. Call numbers are kept relative, so that the search closes over any number of calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

__all__ = ["MUTANTS", "PROTOCOLS", "Protocol", "Verdict", "explore"]

SENTINEL = -(10**6)
"""Value of a line that holds "not arrived". Other values are the number of the call that wrote them."""

Line = tuple[tuple[int, int], ...]
"""What a line holds: the visible (value, call that stored it), then those on their way, oldest first."""
Rank = tuple[int, int]
"""Call number and the set of lines already seen, as bits."""
State = tuple[tuple[Rank, ...], tuple[tuple[Line, ...], ...]]


@dataclass(frozen=True)
class Protocol:
    """One protocol, or a mutant of it.

    ``format`` is ``tagged`` (LL8: data and tag in one access), ``sentinel`` (F16) or ``flag`` (data, then a flag in
    another line; not used by the kernels, kept to show why). ``sizes`` are the lines of the calls, in turn; the
    largest is the capacity. ``tags`` is the number of different tags (2^32 in the kernels). ``rearm_after`` is how
    many calls later a generation gets its sentinel back; ``rearm_sums`` is whether that goes for owned lines too.

    With two ``shots`` each line has an owner, in runs of equal length: the other ranks send it what they add, and
    it sends the sum, in the same line of its own slot, when it has seen all of them.
    """

    name: str
    world: int
    format: str = "tagged"
    generations: int = 2
    shots: int = 1
    sizes: tuple[int, ...] = (1,)
    tags: int = 8
    rearm_after: int = 2
    rearm: bool = True
    rearm_sums: bool = True
    fenced: bool = True
    scrub: bool = True
    compare: str = "equal"

    @property
    def lines(self) -> int:
        """Lines of one generation; the flag is the last of them."""
        return max(self.sizes) + (1 if self.format == "flag" else 0)

    @property
    def period(self) -> int:
        """Calls after which the same call numbers mean the same again."""
        sweep = 2 * self.lines if self.format == "tagged" else 1
        return math.lcm(self.generations, len(self.sizes), self.tags if self.format != "sentinel" else 1, sweep)

    def used(self, call: int) -> int:
        """Data lines of a call."""
        return self.sizes[call % len(self.sizes)]

    def owner(self, call: int, line: int) -> int:
        """The rank that reduces a line; no rank with one shot."""
        return line // -(-self.used(call) // self.world) if self.shots == 2 else -1

    def place(self, call: int, line: int) -> int:
        """Index of a line in the slot."""
        return call % self.generations * self.lines + line

    def accepts(self, value: int, call: int) -> bool:
        """Whether a rank at ``call`` takes what a line shows."""
        if self.format == "sentinel":
            return value != SENTINEL
        if self.compare == "at least":
            return value % self.tags >= call % self.tags
        return value % self.tags == call % self.tags


@dataclass(frozen=True)
class Verdict:
    """Outcome of a search: number of states, and the first wrong or stuck state in words ("" if there is none)."""

    protocol: Protocol
    states: int
    transitions: int
    problem: str


def _store(lines: tuple[Line, ...], place: int, value: int, call: int) -> tuple[Line, ...]:
    # At most two stores to a line are on their way: those to one line are whole generations of calls apart.
    before = lines[place][1:] if len(lines[place]) > 2 else lines[place]
    return (*lines[:place], (*before, (value, call)), *lines[place + 1 :])


def _enter(p: Protocol, lines: tuple[Line, ...], call: int, rank: int) -> tuple[Line, ...]:
    """A rank starts ``call``: its pushes, its refreshed line and its re-arming are on their way."""
    used = p.used(call)
    for line in range(used):
        if p.owner(call, line) != rank:
            lines = _store(lines, p.place(call, line), call, call)
    if p.format == "flag" and not p.fenced:
        lines = _store(lines, p.place(call, p.lines - 1), call, call)
    if p.format == "tagged" and p.scrub:
        spare = (call // 2) % p.lines
        if spare >= used:
            lines = _store(lines, p.place(call, spare), call, call)
    if p.format == "sentinel" and p.rearm and call > p.rearm_after:
        old = call - p.rearm_after
        for line in range(p.used(old)):
            if p.rearm_sums or p.owner(old, line) != rank:
                lines = _store(lines, p.place(old, line), SENTINEL, call)
    return lines


def _start(p: Protocol) -> State:
    empty = SENTINEL if p.format == "sentinel" else 0
    lines: tuple[Line, ...] = tuple(((empty, 0),) for _ in range(p.generations * p.lines))
    return tuple((1, 0) for _ in range(p.world)), tuple(_enter(p, lines, 1, r) for r in range(p.world))


def _wanted(p: Protocol, rank: int, call: int) -> Iterator[tuple[int, int, int]]:
    """(bit, peer, line) of everything a rank has to see in a call."""
    bit = 0
    for peer in range(p.world):
        if peer == rank:
            continue
        for line in range(p.lines):
            # With two shots: what a peer adds to a line of this rank, and the sums of the peer's own lines.
            data = line < p.used(call) and (p.shots == 1 or p.owner(call, line) in (rank, peer))
            if data or (p.format == "flag" and line == p.lines - 1):
                yield bit, peer, line
            bit += 1


def _wrong(p: Protocol, state: State) -> str:
    ranks, memory = state
    for rank, (call, seen) in enumerate(ranks):
        for bit, peer, line in _wanted(p, rank, call):
            if seen >> bit & 1:
                continue
            value = memory[peer][p.place(call, line)][0][0]
            takes = p.accepts(value, call)
            if p.format == "flag" and line < p.lines - 1:
                # Data carries no tag: it is taken as soon as its flag has been seen.
                takes = bool(seen >> (bit - line + p.lines - 1) & 1)
            if takes and value != call:
                return f"rank {rank} at call {call} takes line {line} of rank {peer} as written in call {value}"
    return ""


def _moves(p: Protocol, state: State) -> Iterator[State]:
    ranks, memory = state
    for rank, (call, seen) in enumerate(ranks):
        missing = 0
        for bit, peer, line in _wanted(p, rank, call):
            if seen >> bit & 1:
                continue
            missing += 1
            value = memory[peer][p.place(call, line)][0][0]
            ready = p.accepts(value, call)
            if p.format == "flag" and line < p.lines - 1:
                ready = bool(seen >> (bit - line + p.lines - 1) & 1)
            if ready:
                yield (*ranks[:rank], (call, seen | 1 << bit), *ranks[rank + 1 :]), memory
        mine = memory[rank]
        if p.format == "flag" and p.fenced:
            flag = p.place(call, p.lines - 1)
            raised = any(value == call for value, _ in mine[flag])
            if not raised and not any(len(line) > 1 for line in mine):
                changed = _store(mine, flag, call, call)
                yield ranks, (*memory[:rank], changed, *memory[rank + 1 :])
            missing += 0 if raised else 1
        for line in range(p.used(call) if p.shots == 2 else 0):
            at = p.place(call, line)
            if p.owner(call, line) != rank or any(value == call for value, _ in mine[at]):
                continue
            missing += 1
            added = (bit for bit, _, other in _wanted(p, rank, call) if other == line)
            if all(seen >> bit & 1 for bit in added):
                yield ranks, (*memory[:rank], _store(mine, at, call, call), *memory[rank + 1 :])
        # The fence of a call holds its end until everything stored in calls before is visible.
        late = p.format == "sentinel" and p.fenced and any(by < call for line in mine for _, by in line[1:])
        if not missing and not late:
            changed = _enter(p, mine, call + 1, rank)
            yield (*ranks[:rank], (call + 1, 0), *ranks[rank + 1 :]), (*memory[:rank], changed, *memory[rank + 1 :])
        for place, held in enumerate(mine):
            if len(held) > 1:
                changed = (*mine[:place], held[1:], *mine[place + 1 :])
                yield ranks, (*memory[:rank], changed, *memory[rank + 1 :])


def _relative(p: Protocol, state: State) -> State:
    """Call numbers counted from the last full period that all ranks have behind them."""
    ranks, memory = state
    shift = (min(call for call, _ in ranks) - 1) // p.period * p.period
    # The first calls re-arm nothing, so the first period stays apart from the later ones.
    shift -= p.period if shift else 0
    if shift <= 0:
        return state
    moved = tuple(
        tuple(tuple((v if v == SENTINEL else v - shift, by - shift) for v, by in line) for line in lines)
        for lines in memory
    )
    return tuple((call - shift, seen) for call, seen in ranks), tuple(
        _forget(p, lines, ranks, shift) for lines in moved
    )


def _forget(p: Protocol, lines: tuple[Line, ...], ranks: tuple[Rank, ...], shift: int) -> tuple[Line, ...]:
    """Who stored a visible value is never asked; only when a value still on its way was stored."""
    return tuple(((line[0][0], 0), *line[1:]) for line in lines)


def _renamed(p: Protocol, state: State) -> State:
    """The same state with ranks in an order of its own: ranks are alike, so one of each kind is enough.

    With two shots they are not, since each owns lines of its own.
    """
    ranks, memory = state
    if p.world < 3 or p.shots == 2:
        return state
    best: State | None = None
    heard = [0] * p.world
    for rank, (_, seen) in enumerate(ranks):
        for peer in range(p.world):
            if peer != rank:
                slot = (peer - (peer > rank)) * p.lines
                heard[peer] += (seen >> slot & ((1 << p.lines) - 1)).bit_count()
    # Nothing in a key depends on how the ranks are numbered, so only ranks with equal keys need trying in every order.
    keys = [(ranks[r][0], ranks[r][1].bit_count(), heard[r], memory[r]) for r in range(p.world)]
    groups: list[list[int]] = []
    for rank in sorted(range(p.world), key=lambda r: keys[r]):
        if groups and keys[groups[-1][0]] == keys[rank]:
            groups[-1].append(rank)
        else:
            groups.append([rank])
    for chosen in _orders(groups):
        turned = tuple((ranks[old][0], _turn(p, ranks[old][1], old, chosen)) for old in chosen)
        if best is None or turned < best[0]:
            best = turned, tuple(memory[old] for old in chosen)
    assert best is not None
    return best


def _orders(groups: list[list[int]]) -> Iterator[list[int]]:
    if not groups:
        yield []
        return
    for head in permutations(groups[0]):
        for tail in _orders(groups[1:]):
            yield [*head, *tail]


def _turn(p: Protocol, seen: int, rank: int, chosen: list[int]) -> int:
    """The set of lines seen by ``rank``, its peers counted in the order ``chosen``."""
    out = 0
    mask = (1 << p.lines) - 1
    slot = 0
    for peer in chosen:
        if peer == rank:
            continue
        place = peer - (peer > rank)
        out |= (seen >> place * p.lines & mask) << slot * p.lines
        slot += 1
    return out


def explore(p: Protocol, limit: int = 5_000_000) -> Verdict:
    """Visit every reachable state, breadth first; stop at the first wrong or stuck one."""

    def short(state: State) -> State:
        ranks, memory = _relative(p, state)
        return _renamed(p, (ranks, tuple(_forget(p, lines, ranks, 0) for lines in memory)))

    first = short(_start(p))
    known = {first}
    front = [first]
    transitions = 0
    while front:
        following: list[State] = []
        for state in front:
            problem = _wrong(p, state)
            if problem:
                return Verdict(p, len(known), transitions, problem)
            moved = False
            for move in _moves(p, state):
                moved = True
                transitions += 1
                found = short(move)
                if found not in known:
                    known.add(found)
                    following.append(found)
            if not moved:
                return Verdict(p, len(known), transitions, f"stuck: {state[0]}")
            if len(known) > limit:
                raise MemoryError(f"{p.name}: more than {limit} states")
        front = following
    return Verdict(p, len(known), transitions, "")


PROTOCOLS: tuple[Protocol, ...] = (
    Protocol("LL8, 2 ranks, one line", 2, tags=4),
    Protocol("LL8, 2 ranks, changing sizes", 2, sizes=(2, 1, 1, 1, 1, 1), tags=8),
    Protocol("LL8, 3 ranks", 3, tags=4),
    Protocol("LL8, 4 ranks", 4, tags=4),
    Protocol("F16, 2 ranks, one line", 2, "sentinel", 5),
    Protocol("F16, 2 ranks, changing sizes", 2, "sentinel", 5, sizes=(2, 1)),
    Protocol("F16, 3 ranks", 3, "sentinel", 5),
    Protocol("F16, 4 ranks", 4, "sentinel", 5),
    Protocol("LL8, two shots, 2 ranks, a line each", 2, shots=2, sizes=(2,), tags=4),
    Protocol("LL8, two shots, 2 ranks, changing sizes", 2, shots=2, sizes=(2, 2, 1, 1, 1, 1), tags=8),
    Protocol("LL8, two shots, 3 ranks, one of them an owner", 3, shots=2, tags=4),
    Protocol("LL8, two shots, 3 ranks, a line each", 3, shots=2, sizes=(3,), tags=4),
    Protocol("LL8, two shots, 4 ranks, one of them an owner", 4, shots=2, tags=4),
    Protocol("F16, two shots, 2 ranks, one of them an owner", 2, "sentinel", 5, shots=2),
    Protocol("F16, two shots, 2 ranks, a line each", 2, "sentinel", 5, shots=2, sizes=(2,)),
    Protocol("F16, two shots, 2 ranks, changing sizes", 2, "sentinel", 5, shots=2, sizes=(2, 1)),
    Protocol("F16, two shots, 3 ranks, one of them an owner", 3, "sentinel", 5, shots=2),
    Protocol("data then flag, fenced, 2 ranks", 2, "flag", 2, tags=4),
)
"""What the kernels do, and the fenced flag for comparison."""

MUTANTS: tuple[Protocol, ...] = (
    Protocol("LL8 with one generation", 2, generations=1, tags=4),
    Protocol("LL8 that takes newer or equal tags", 2, tags=4, compare="at least"),
    Protocol(
        "LL8 without refreshed lines, at the turn of the epoch", 2, sizes=(2, 1, 1, 1, 1, 1, 1, 1), tags=8, scrub=False
    ),
    Protocol("F16 without re-arming", 2, "sentinel", 5, rearm=False),
    Protocol("F16 with one generation too few", 2, "sentinel", 4),
    Protocol("F16 without the fence", 2, "sentinel", 5, fenced=False),
    Protocol("F16 that re-arms one call early", 2, "sentinel", 5, rearm_after=1),
    Protocol(
        "LL8, two shots, without refreshed lines", 2, shots=2, sizes=(2, 2, 1, 1, 1, 1, 1, 1), tags=8, scrub=False
    ),
    Protocol("F16, two shots, with one generation too few", 2, "sentinel", 4, shots=2),
    Protocol("F16, two shots, without the fence", 2, "sentinel", 5, shots=2, fenced=False),
    Protocol("F16, two shots, that re-arms one call early", 2, "sentinel", 5, shots=2, sizes=(2,), rearm_after=1),
    Protocol("F16, two shots, that re-arms no sums", 2, "sentinel", 5, shots=2, sizes=(2,), rearm_sums=False),
    Protocol("data then flag without the fence", 2, "flag", 2, tags=4, fenced=False),
)
"""What must be found wrong."""
