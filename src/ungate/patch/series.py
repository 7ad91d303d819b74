"""From gates to a series of edits that opens the same set of architectures at every layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ungate.host.packages import Package, recorded
from ungate.model import KNOWN_ARCHS, ArchSet, Edit, Form, Gate, Series, Target
from ungate.patch.content import apply, digest, root_of, sha256
from ungate.patch.edits import Entry, Opening, Place, Replacement, Unopenable, opening
from ungate.patch.naming import flags, followers, gives

__all__ = ["open_series"]

_PREBUILT = frozenset({".so", ".a", ".o", ".cubin", ".fatbin", ".pyd"})


@dataclass(frozen=True, slots=True)
class _Asked:
    gate: Gate
    package: Package
    content: bytes
    when: str = ""
    entry: Entry | None = None


def _reason(gate: Gate, package: Package | None, rows: dict[Path, frozenset[str]]) -> str:
    """Why the gate cannot be edited, empty where it can."""
    if package is None:
        return "its file is in none of the packages"
    if Path(gate.file).suffix in _PREBUILT:
        return "it is in a prebuilt binary"
    if gate.passes.unknown:
        return f"its condition is not known to hold or not ({gate.note or 'it cannot be decided from the source'})"
    if gate.form is Form.FIXED or gate.span == (0, 0):
        return gate.note or "no textual edit can open it"
    if gate.role == "mechanism":
        return "it tests whatever it is given; what it is given is opened where it is written"
    if package.info is not None and not package.editable:
        if package.info not in rows:
            rows[package.info] = frozenset(recorded(package))
        known = rows[package.info]
        if known and gate.file not in known:
            return f"its file is not in the RECORD of {package.name}, so it could not be put back for certain"
    return ""


@dataclass
class _Files:
    """The edits so far, by file; refuses what would overlap."""

    taken: dict[str, list[tuple[Replacement, Gate]]] = field(default_factory=dict)

    def covers(self, gate: Gate) -> Gate | None:
        """A gate edited inside this one's span: opening the inner part opened the outer."""
        start, end = gate.span
        for replacement, other in self.taken.get(gate.file, []):
            low, high = other.span
            inside = start <= low and high <= end and start <= replacement.start <= end
            if inside and (low, high) != (start, end):
                return other
        return None

    def clashes(self, gate: Gate, made: Opening) -> bool:
        for new in made.replacements:
            for old, other in self.taken.get(gate.file, []):
                same = (new.start, new.end, new.new) == (old.start, old.end, old.new)
                apart = new.end < old.start or old.end < new.start
                touching = new.end == old.start or old.end == new.start
                if not (same or apart or (touching and other.span != gate.span)):
                    return True
        return False

    def add(self, gate: Gate, made: Opening) -> None:
        taken = self.taken.setdefault(gate.file, [])
        have = {(r.start, r.end, r.new) for r, _ in taken}
        for new in made.replacements:
            # several gates of one file may need the same import
            if (new.start, new.end, new.new) not in have or new.start != new.end or not new.why.startswith("brings in"):
                taken.append((new, gate))


def _when(gate: Gate, when: Mapping[str, str]) -> str:
    """The condition for a gate, named by its id, its file, or its file and line."""
    return next((when[key] for key in (gate.id, f"{gate.file}:{gate.line}", gate.file) if key in when), "")


def _plan(
    asked: Sequence[_Asked], wanted: frozenset[int], roots: tuple[Path, ...]
) -> tuple[dict[str, Opening], dict[str, str]]:
    """The opening of each gate by id, and why some have none."""
    openings: dict[str, Opening] = {}
    refused: dict[str, str] = {}
    for each in asked:
        place = Place(each.gate, each.content, wanted, each.package.root, roots, each.when, each.entry)
        if not place.missing:
            continue
        try:
            openings[each.gate.id] = opening(place)
        except Unopenable as reason:
            refused[each.gate.id] = str(reason)
    return openings, refused


def _common(
    asked: Sequence[_Asked], target: Target, roots: tuple[Path, ...]
) -> tuple[frozenset[int], dict[str, Opening], dict[str, str]]:
    """Grow the wanted set until every gate can express exactly it: the coarsest form decides for all layers."""
    wanted = frozenset({target.number})
    for _ in KNOWN_ARCHS:
        openings, refused = _plan(asked, wanted, roots)
        grown = wanted.union(*(made.admits for made in openings.values()))
        if grown == wanted:
            break
        wanted = grown
    return wanted, openings, refused


def open_series(
    name: str,
    gates: Sequence[Gate],
    target: Target,
    packages: Sequence[Package],
    *,
    when: Mapping[str, str] | None = None,
    entries: Mapping[str, Entry] | None = None,
) -> Series:
    """Byte-span edits that let ``target`` through at each of the gates.

    A form that cannot name the target alone (a list of majors) brings archs along; a series opens the same set at every
    gate, so that none is let in above and left hollow below, and each edit names these riders. Gates that cannot be
    edited stand in ``refused`` with the reason; gates that let the whole set through already are left alone.
    ``when`` maps a gate (id, ``file:line`` or ``file``) to a condition under which the archs pass there, ``entries``
    the id of a table to what its new row holds: how a policy is written back (:mod:`ungate.patch.restrict`).
    """
    roots = tuple(dict.fromkeys(package.root for package in packages))
    rows: dict[Path, frozenset[str]] = {}
    contents: dict[str, bytes] = {}
    asked: list[_Asked] = []
    refused: list[tuple[Gate, str]] = []
    seen: set[tuple[str, tuple[int, int]]] = set()
    for gate in sorted(gates, key=lambda g: (g.file, g.span[1] - g.span[0], g.span)):
        if (gate.file, gate.span) in seen and gate.span != (0, 0):
            continue
        seen.add((gate.file, gate.span))
        package = root_of(packages, gate.package, gate.file)
        if reason := _reason(gate, package, rows):
            if gate.passes.lets(target.number) is not True:
                refused.append((gate, reason))
            continue
        assert package is not None
        if gate.file not in contents:
            contents[gate.file] = (package.root / gate.file).read_bytes()
        asked.append(_Asked(gate, package, contents[gate.file], _when(gate, when or {}), (entries or {}).get(gate.id)))
    given = {each.gate.id: gives(each.gate, each.content) for each in asked}
    kept = flags([each.gate for each in asked], given)
    for each in asked:
        if name_of_flag := kept.get(each.gate.id):
            why = f"it gives the flag {name_of_flag} its value, and the expression that decides by the flag is opened"
            refused.append((each.gate, why))
    asked = [each for each in asked if each.gate.id not in kept]
    behind = followers([each.gate for each in asked], given)
    wanted, openings, reasons = _common(asked, target, roots)
    files = _Files()
    for each in asked:
        gate = each.gate
        if behind.get(gate.id) in openings:
            continue
        if gate.id in reasons:
            refused.append((gate, reasons[gate.id]))
        elif (made := openings.get(gate.id)) and not files.covers(gate):
            if files.clashes(gate, made):
                refused.append((gate, "its edit would overlap the edit of another gate"))
            else:
                files.add(gate, made)
    edits: list[Edit] = []
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for file, taken in sorted(files.taken.items()):
        data = contents[file]
        mine = [_edit(r, gate, data, wanted, target) for r, gate in sorted(taken, key=lambda t: (t[0].start, t[0].end))]
        before[file], after[file] = sha256(data), sha256(apply(data, mine))
        edits += mine
    return Series(name, target, tuple(edits), before, after, tuple(refused), digest(edits, before))


def _edit(made: Replacement, gate: Gate, data: bytes, wanted: frozenset[int], target: Target) -> Edit:
    riders = tuple(sorted(wanted - {target.number} - gate.passes.yes))
    return Edit(
        gate.file,
        made.start,
        made.end,
        data[made.start : made.end],
        made.new,
        gate.id,
        ArchSet(gate.passes.yes | wanted),
        riders,
        made.why or _why(gate, target, riders),
    )


def _why(gate: Gate, target: Target, riders: tuple[int, ...]) -> str:
    ride = "rides" if len(riders) == 1 else "ride"
    along = f"; {', '.join(f'sm_{arch}' for arch in riders)} {ride} along" if riders else ""
    return f"lets {target} through {gate.condition or gate.pattern}{along}"
